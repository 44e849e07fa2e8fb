"""Operands, a peer and the check with which `mixed_fp8_gemm` is measured."""

from __future__ import annotations

import torch

from tilewright import weight_layout
from tilewright.families.mixed_fp8_gemm.op import packed_fp8_gemm
from tilewright.families.mixed_fp8_gemm.problem import Problem
from tilewright.families.mixed_fp8_gemm.reference import weight_of
from tilewright.families.mixed_gemm import measuring as dense
from tilewright.formats.dtypes import dtype_of
from tilewright.tools.measuring import Peer

LARGEST_SCALE = 1.0  # of random weights of MXFP4 at most


class Operands(dense.Operands):
    """A call of `mixed_fp8_gemm`."""

    def weight_as_multiplied(self) -> torch.Tensor:
        return weight_of(weight_layout.Packed(self.weight, self.scale), self.problem)

    def row_factors(self, rows: torch.Tensor) -> torch.Tensor | None:
        return None if self.a_scale is None else self.a_scale[rows, None].double()


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
            x.wide = x.weight_as_multiplied().to(dtype)
        torch.mm(x.wide_a, x.wide.T, out=x.out)

    return "torch.mm", call
