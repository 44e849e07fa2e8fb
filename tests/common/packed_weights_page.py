"""The Python of docs/packed_weights.md: blocks that run anywhere, and those marked `gpu`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

PAGE = (Path(__file__).resolve().parents[2] / "docs/packed_weights.md").read_text(encoding="utf-8")
_BLOCK = re.compile(r"^```python(?: (\w+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCKS = [(mark, code) for mark, code in _BLOCK.findall(PAGE)]
GPU = [code for mark, code in BLOCKS if mark == "gpu"]
WEIGHTS = ("awq", "gate_up", "mlp", "experts", "fp8", "int8", "awq")
"""The weights of the blocks of `GPU`."""


def names(upto: str | None = None) -> dict[str, Any]:
    """What the blocks that run anywhere define, all of them or those before the block `upto`."""
    namespace: dict[str, Any] = {}
    for mark, code in BLOCKS:
        if code == upto:
            break
        if mark != "gpu":
            exec(code, namespace)
    return namespace


def products(namespace: dict[str, Any], name: str) -> tuple[torch.Tensor, torch.Tensor]:
    """What the page's call with the weight `name` computes, in float64 on the CPU, and a bound of its error.

    Weights of integers are rounded to BF16, D too; FP32 adds up."""
    from tilewright.weights import unpack_weight  # noqa: PLC0415 (importing this module needs no torch)

    packed, x = namespace[f"{name}_packed"], namespace["x"].cpu().double()
    if "x_fp8" in namespace:
        x = namespace["x_fp8"].cpu().double() * namespace["x_scale"].cpu().double()[:, None]
    weights = (
        [packed] if packed.experts is None else [packed.expert(index) for index in range(packed.experts)]
    )
    ends = [len(x)] if packed.experts is None else namespace["ends"].tolist()
    expected, sizes = x.new_zeros(len(x), packed.n), x.new_zeros(len(x), packed.n)
    for weight, start, end in zip(weights, [0, *ends[:-1]], ends, strict=True):
        decoded = unpack_weight(weight).dequantize().t()
        expected[start:end] = x[start:end] @ decoded
        sizes[start:end] = x[start:end].abs() @ decoded.abs()
    if not packed.gated:
        return expected, 2.0**-8 * (sizes + expected.abs())
    (gate, up), (of_gate, of_up) = expected.chunk(2, dim=1), sizes.chunk(2, dim=1)
    silu = gate * gate.sigmoid()
    expected = silu * up
    steepest = 1.1  # slope of SiLU
    return expected, 2.0**-8 * (steepest * of_gate * (up.abs() + of_up) + silu.abs() * of_up + expected.abs())
