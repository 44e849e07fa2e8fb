"""Operands, a peer and the check with which `mixed_gemm` is measured."""

from __future__ import annotations

import torch

from tilewright import weight_formats, weight_layout
from tilewright.families.gemm.op import ACTIVATED
from tilewright.families.mixed_gemm.op import packed_gemm
from tilewright.families.mixed_gemm.problem import FORMATS, Problem
from tilewright.families.mixed_gemm.reference import decoded
from tilewright.formats.dtypes import dtype_of
from tilewright.tools import measuring
from tilewright.tools.measuring import Peer

_TOLERANCES = {"bf16": 4e-3, "f16": 1e-3, "f32": 4e-3}  # stream kernels do not round scaled weights


class Operands(measuring.Operands):
    """A call of `mixed_gemm`."""

    def weight_as_multiplied(self) -> torch.Tensor:
        """W [n, k] as kernels multiply it."""
        return decoded(weight_layout.Packed(self.weight, self.scale), self.problem)

    def row_factors(self, rows: torch.Tensor) -> torch.Tensor | None:
        """The factors of some rows of A, [rows, 1]; None for 1."""
        return None

    def check(self) -> float:
        """The error norm over rows spread evenly."""
        rows = measuring.spread(self.problem.m)
        expected = self.alpha * (self.a[rows].double() @ self.weight_as_multiplied().double().T)
        if (factors := self.row_factors(rows)) is not None:
            expected *= factors
        if self.bias is not None:
            expected += self.bias.double()
        expected = ACTIVATED[self.activation](expected)
        tolerance = _TOLERANCES[self.problem.d]
        actual = self.out[rows].double()
        return measuring.check_norms(self.problem, actual, expected, tolerance, tolerance)


def make(problem: Problem, generator: torch.Generator) -> Operands:
    """One set, on the generator's device: random codes, and scales of about 2^-6."""
    device = generator.device
    packed = random_weight(problem, generator)
    dtype, d = dtype_of(problem.a), dtype_of(problem.d)
    a = torch.randn((problem.m, problem.k), generator=generator, device=device).to(dtype)
    bias = torch.randn(problem.n, generator=generator, device=device) if problem.bias else None
    return Operands(
        problem, packed_gemm, a=a, weight=packed.weight, scale=packed.scale, n=problem.n,
        weight_format=problem.weight_format, bias=None if bias is None else bias.to(d),
        out_dtype=d, activation=problem.activation,
    )  # fmt: skip


def random_weight(problem: Problem, generator: torch.Generator) -> weight_layout.Packed:
    """A packed weight of random codes."""
    format, group = FORMATS[problem.weight_format]
    device, shape = generator.device, (problem.n, -(-problem.k // group))
    bits, extents = weight_formats.FORMATS[format].bits, (problem.n, problem.k)
    codes = torch.randint(1 << bits, extents, generator=generator, device=device, dtype=torch.uint8)
    zeros = None
    if format == "e4m3":
        codes &= 0xBF  # magnitudes below 2, and no NaN
    if format == "mxfp4":
        scales = torch.randint(119, 123, shape, generator=generator, device=device, dtype=torch.uint8)
    elif format == "nvfp4":
        scales = torch.randint(8, 40, shape, generator=generator, device=device, dtype=torch.uint8)
    else:
        random = torch.rand(shape, generator=generator, device=device)
        scales = ((random + 0.5) / 64).to(dtype_of(problem.a))
        if format == "int4_zp":
            zeros = torch.randint(16, shape, generator=generator, device=device, dtype=torch.uint8)
    return weight_layout.pack(codes, scales, zeros, format=format, group=group)


def peer(problem: Problem) -> Peer | None:
    """torch's product of the same activations and weights of 16 bits; None if there is an activation, or D
    has another type."""
    if problem.activation != "none" or problem.bias or problem.d != problem.a:
        return None

    def call(x: Operands) -> None:
        if not hasattr(x, "wide"):
            x.wide = x.weight_as_multiplied()
        torch.mm(x.a, x.wide.T, out=x.out)

    return "torch.mm", call
