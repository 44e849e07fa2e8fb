"""The calls of docs/packed_weights.md, on a GPU, against float64 of the decoded weights."""

from __future__ import annotations

import pytest
import torch
from packed_weights_page import GPU, names

import tilewright


@pytest.mark.parametrize(
    ("code", "packed", "expert"), list(zip(GPU, ("awq", "gate_up", "experts"), (None, None, 2), strict=True))
)
def test_a_call_multiplies_by_the_decoded_weight(code: str, packed: str, expert: int | None) -> None:
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("kernels of sm_90a")
    namespace = names(upto=code)
    exec(code, namespace)
    weight = tilewright.unpack_weight(namespace[f"{packed}_packed"])
    decoded = (weight if expert is None else weight.expert(expert)).dequantize().cuda()
    expected = namespace["x"].double() @ decoded.T
    norm = namespace["x"].double().abs() @ decoded.abs().T
    error = (namespace["d"].double() - expected).abs()
    # Weights of integers are rounded to BF16 (2^-9), and so is D; sums in FP32 add less.
    assert bool((error <= 2.0**-8 * norm + 2.0**-8 * expected.abs()).all())
