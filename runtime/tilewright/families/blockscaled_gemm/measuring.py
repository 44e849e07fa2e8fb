"""Operands, peers and checks with which the block-scaled ops are measured."""

from __future__ import annotations

import functools
from typing import Any

import torch

from tilewright import reference, scale_factors
from tilewright.errors import WrongResultError
from tilewright.families.blockscaled_gemm import op
from tilewright.families.blockscaled_gemm.interface import INTERFACE
from tilewright.families.blockscaled_gemm.problem import BLOCK, FP8_OUTPUTS, SCALE_LAYOUT, Problem
from tilewright.families.gemm.op import ACTIVATED
from tilewright.formats.dtypes import dtype_of
from tilewright.formats.types import bits
from tilewright.tools import measuring
from tilewright.tools.measuring import Peer

ALPHA = 0.75  # not 1, so that a kernel that ignores it fails
_CHECKED_ROWS = 256  # rows of D that are checked, spread evenly


def op_of(a: str, b: str) -> Any:
    """The public op that multiplies matrices of these formats."""
    if bits(a) != bits(b):
        return op.mm_mxfp8_mxfp4
    return {"nvfp4": op.mm_nvfp4, "mxfp4": op.mm_mxfp4}.get(a, op.mm_mxfp8)


class Operands(measuring.Operands):
    """A call of one of the products, with a beta of 1 if there is a C."""

    def check(self) -> float:
        """The error norm over rows spread evenly, in every batch. Raises WrongResultError if an element, the
        norm or the angle is too far off."""
        problem, rows = self.problem, measuring.spread(self.problem.m, _CHECKED_ROWS)
        plain = scale_factors.unswizzle(self.a_descale, problem.m, problem.k, BLOCK[problem.a], SCALE_LAYOUT)
        scales = scale_factors.swizzle(plain[..., rows, :], SCALE_LAYOUT)
        call = (self.a[..., rows, :], self.b, scales, self.b_descale, problem.a)
        options: dict[str, Any] = {"format_b": problem.b, "alpha": self.alpha}
        if self.c is not None:
            options |= {"c": self.c[..., rows, :], "beta": 1.0}
        exact, size = reference.product(*call, **options), reference.magnitude(*call, **options)
        if self.bias is not None:
            exact, size = exact + self.bias.double(), size + self.bias.double().abs()
        exact = ACTIVATED[problem.activation](exact)
        if problem.d in FP8_OUTPUTS:
            most = torch.finfo(self.out.dtype).max
            exact = exact.clamp(-most, most)
        actual = self._value()[..., rows, :]
        compared = reference.compare(
            actual, exact, size, problem.d if problem.quantizes else None,
            slack=reference.accumulation_slack(problem.k),
            global_scale=1.0 if self.out_global_scale is None else float(self.out_global_scale),
        )  # fmt: skip
        if not compared.passes(cosine=0.99 if bits(problem.d) <= 8 else 0.999):
            raise WrongResultError(f"{problem}: {compared}")
        return float((actual.double() - exact).norm() / exact.norm())

    def _value(self) -> torch.Tensor:
        """The values of D: dequantised if it is quantised."""
        out: torch.Tensor = self.out
        if not self.problem.quantizes:
            return out
        return reference.dequantize(out, self.out_descale, self.problem.d, global_scale=self.out_global_scale)

    @functools.cached_property
    def dequantized(self) -> tuple[torch.Tensor, torch.Tensor]:
        """A and B in BF16, with alpha in A."""
        problem = self.problem
        a = reference.dequantize(self.a, self.a_descale, problem.a) * self.alpha
        b = reference.dequantize(self.b.mT, self.b_descale, problem.b)
        return a.bfloat16(), b.bfloat16().mT


def make(problem: Problem, generator: torch.Generator) -> Operands:
    """One set, on the generator's device."""
    device, batch = generator.device, (problem.batch,) if problem.batch > 1 else ()

    def random(rows: int, name: str) -> tuple[torch.Tensor, torch.Tensor]:
        value = torch.randn((*batch, rows, problem.k), generator=generator, device=device)
        return reference.quantize(value, name)

    (a, a_scales), (b, b_scales) = random(problem.m, problem.a), random(problem.n, problem.b)
    arguments: dict[str, Any] = {"alpha": torch.full((1,), ALPHA, device=device)}
    if problem.d == "nvfp4":  # elements are about alpha * sqrt(k), and few exceed six times that
        arguments["out_global_scale"] = torch.full((1,), 448.0 / (ALPHA * problem.k**0.5), device=device)
    if problem.c:
        arguments["c"] = measuring.random_matrix(INTERFACE.matrices["c"], problem, generator)
    if problem.bias:
        bias = torch.randn(problem.n, generator=generator, device=device)
        arguments["bias"] = bias.to(dtype_of(problem.type_of_c))
    call = operands(problem, a, b.mT, a_scales, b_scales, **arguments)
    call.more_bytes = 2 * problem.batch * problem.k * (problem.m + problem.n)  # of `dequantized`
    return call


def operands(problem: Problem, *quantized: torch.Tensor, **arguments: Any) -> Operands:
    """A call on these tensors. The first four are a, b and their scales."""
    call = dict(zip(("a", "b", "a_descale", "b_descale"), quantized, strict=True))
    options = {
        "out_dtype": dtype_of(problem.d),
        "out_scaled": problem.quantizes,
        "beta": float(problem.c),
        "activation": problem.activation,
    }
    return Operands(problem, op_of(problem.a, problem.b), **call, **options, **arguments)


def peer(problem: Problem) -> Peer | None:
    """torch.mm on operands that were dequantised to BF16 beforehand, and have two to four times the bytes."""
    if problem.c or problem.bias or problem.activation != "none":
        return None
    if problem.batch > 1:
        return "torch.bmm on bf16", lambda x: torch.bmm(*x.dequantized)
    return "torch.mm on bf16", lambda x: torch.mm(*x.dequantized)
