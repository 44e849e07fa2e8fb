"""Packed weights that hold every code with every scale, and gated ones with these as gate or as up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from tilewright import weight_formats, weight_layout
from tilewright.declarations.table import KernelRecord
from tilewright.families.mixed_gemm.problem import FORMATS, Problem
from tilewright.formats.dtypes import dtype_of

HALVES = ("gate", "up")


def every_code_and_scale(kernel: KernelRecord) -> dict[str, Any]:
    """Every code with every scale, also zeros and subnormals. Scales of a row of W are all finite or all not,
    because infinity times 0 is NaN."""
    format, group = FORMATS[kernel.config["weight_format"]]
    dtype, zeros = dtype_of(kernel.config["a"]), None
    if format in {"mxfp4", "nvfp4"}:
        n, k = 256, 32
        scales = torch.arange(256, device="cuda", dtype=torch.uint8)[:, None].repeat(1, k // group)
    else:
        n, k = 4096, 16 * group
        scales = (torch.arange(2**16, device="cuda") - 2**15).to(torch.int16).view(dtype).view(n, 16)
        if format == "int4_zp":
            zeros = (torch.arange(n * 16, device="cuda") * 7 // 5 % 16).to(torch.uint8).view(n, 16)
    bits = weight_formats.FORMATS[format].bits
    codes = (torch.arange(n * k, device="cuda") % (1 << bits)).view(n, k).to(torch.uint8)
    if format == "e4m3":
        codes[(codes & 0x7F) == 0x7F] = 0
    return {"codes": codes, "scales": scales, "zeros": zeros}


class GatedCodes(NamedTuple):
    """A gated weight of 2n rows, of which `half` has every code and scale. The codes of the other half are
    zeros, and its bias is 1 for up, or 32 for gate, whose SiLU is 32."""

    half: str
    packed: weight_layout.Packed
    bias: torch.Tensor
    n: int
    k: int

    def check(
        self,
        weight_of: Callable[[weight_layout.Packed, Problem], torch.Tensor],
        problem: Problem,
        actual: torch.Tensor,
    ) -> None:
        """Compares D of an identity, transposed. Rows of up are right to the bit; NaN where a scale is."""
        weight = weight_of(self.packed, problem).double()
        gate, up = (weight + self.bias.double()[:, None]).split(self.n)
        right = (torch.nn.functional.silu(gate) * up).to(dtype_of(problem.d))
        finite = torch.isfinite(right).all(1) & torch.isfinite(gate.float()).all(1)  # the sums, too
        missing = weight.isnan().view(2, self.n, self.k).any(0).any(1)
        assert int(finite.sum()) > self.n // 2
        if self.half == "up":
            assert torch.equal(actual[finite], right[finite])
        else:
            torch.testing.assert_close(actual[finite], right[finite], rtol=8e-3, atol=1e-6)
        assert bool(actual[missing].isnan().all())


def gated_codes(record: KernelRecord, half: str) -> GatedCodes:
    """The weight for a gated kernel."""
    format, group = FORMATS[record.config["weight_format"]]
    parts = every_code_and_scale(record)
    n, k = parts["codes"].shape
    one = {"mxfp4": 127, "nvfp4": 0x38}.get(format, 1)
    zero = weight_formats.FORMATS[format].middle
    merged: dict[str, Any] = {}
    for name, rest in (("codes", zero), ("scales", one), ("zeros", zero)):
        if (rows := parts[name]) is not None:
            others = torch.full_like(rows, rest)
            rows = torch.cat([rows, others] if half == "gate" else [others, rows])
            merged[name] = weight_layout.interleaved(rows)
    packed = weight_layout.pack(**merged, format=format, group=group)
    biases = {"gate": (0.0, 1.0), "up": (32.0, 0.0)}[half]
    bias = torch.tensor(biases, device="cuda", dtype=dtype_of(record.config["a"])).repeat_interleave(n)
    return GatedCodes(half, packed, bias, n, k)
