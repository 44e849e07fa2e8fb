"""Readers agree with the libraries that wrote the checkpoints' formats, on layers that those packed."""

from __future__ import annotations

import pytest
import torch
from golden_vectors import Golden, golden

from tilewright import weights

GOLDEN = golden()


def decoded(case: Golden) -> torch.Tensor:
    weight: weights.QuantizedWeight = getattr(weights, case.reader)(**case.tensors, **case.options)
    return weight.dequantize()


@pytest.mark.parametrize("name", [name for name in GOLDEN if name != "nvfp4_modelopt"])
def test_a_layer_decodes_as_its_library_decodes_it(name: str) -> None:
    case = GOLDEN[name]
    assert case.decoded.unique().numel() > 15
    assert torch.equal(decoded(case).to(case.decoded.dtype), case.decoded)


def test_modelopt_rounds_the_product_of_its_scales() -> None:
    """It multiplies in float32, one factor after the other: two roundings."""
    case = GOLDEN["nvfp4_modelopt"]
    error = (decoded(case) - case.decoded.double()).abs()
    assert bool((error <= case.decoded.double().abs() * 2.0**-23).all())


def test_every_reader_has_a_golden_layer() -> None:
    readers = {name for name in weights.__all__ if name.startswith("from_")}
    assert {case.reader for case in GOLDEN.values()} == readers
    libraries = {case.library.partition(" ")[0] for case in GOLDEN.values()}
    assert len(libraries) == 6
