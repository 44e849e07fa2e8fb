"""Operands, a peer and the check with which `mixed_fp8_gemm` is measured."""

from __future__ import annotations

import torch

from tilewright import weight_layout
from tilewright.families.mixed_fp8_gemm.op import packed_fp8_gemm
from tilewright.families.mixed_fp8_gemm.problem import Problem
from tilewright.families.mixed_fp8_gemm.reference import weight_of
from tilewright.families.mixed_gemm import measuring as dense
from tilewright.families.mixed_gemm.op import ACTIVATED
from tilewright.formats.dtypes import dtype_of
from tilewright.tools import measuring
from tilewright.tools.measuring import Peer

_TOLERANCES = {"bf16": 4e-3, "f16": 1e-3}


LARGEST_SCALE = 1.0  # of random weights of MXFP4 at most


class Operands(measuring.Operands):
    """A call of `mixed_fp8_gemm`."""

    def check(self) -> float:
        """The error norm over rows spread evenly."""
        rows = measuring.spread(self.problem.m)
        weight = weight_of(weight_layout.Packed(self.weight, self.scale), self.problem)
        expected = self.alpha * (self.a[rows].double() @ weight.T)
        if self.a_scale is not None:
            expected *= self.a_scale[rows, None].double()
        if self.bias is not None:
            expected += self.bias.double()
        expected = ACTIVATED[self.activation](expected)
        tolerance = _TOLERANCES[self.problem.d]
        actual = self.out[rows].double()
        return measuring.check_norms(self.problem, actual, expected, tolerance, tolerance)


def make(problem: Problem, generator: torch.Generator) -> Operands:
    """One set, on the generator's device: random codes, and scales of about 2^-6."""
    device, dtype = generator.device, dtype_of(problem.d)
    packed = dense.random_weight(problem.dense, generator)
    a = torch.randn((problem.m, problem.k), generator=generator, device=device).to(torch.float8_e4m3fn)
    a_scale = None
    if problem.a_scale:
        a_scale = torch.rand(problem.m, generator=generator, device=device) + 0.5
    bias = torch.randn(problem.n, generator=generator, device=device).to(dtype) if problem.bias else None
    return Operands(
        problem, packed_fp8_gemm, a=a, weight=packed.weight, scale=packed.scale, n=problem.n,
        weight_format=problem.weight_format, out_dtype=dtype, a_scale=a_scale, bias=bias,
        activation=problem.activation, fast_accum=problem.fast_accum, largest_scale=LARGEST_SCALE,
    )  # fmt: skip


def peer(problem: Problem) -> Peer | None:
    """torch's product of activations and weights of 16 bits; None if there is a scale, bias or activation."""
    if problem.activation != "none" or problem.bias or problem.a_scale:
        return None

    def call(x: Operands) -> None:
        if not hasattr(x, "wide"):
            dtype = dtype_of(x.problem.d)
            x.wide_a = x.a.to(dtype)
            x.wide = weight_of(weight_layout.Packed(x.weight, x.scale), x.problem).to(dtype)
        torch.mm(x.wide_a, x.wide.T, out=x.out)

    return "torch.mm", call
