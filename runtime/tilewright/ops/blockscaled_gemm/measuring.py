"""Operands, peers and checks with which the block-scaled ops are measured."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import torch

from tilewright import reference, scale_factors
from tilewright.device import DeviceProperties
from tilewright.errors import WrongResultError
from tilewright.ops.blockscaled_gemm import op
from tilewright.ops.blockscaled_gemm.interface import INTERFACE
from tilewright.ops.blockscaled_gemm.problem import BLOCK, SCALE_LAYOUT, Problem
from tilewright.ops.common import measuring
from tilewright.ops.common.formats import dtype_of
from tilewright.ops.common.measuring import Peer
from tilewright.ops.common.tactics import Tactic
from tilewright.types import bits

ERROR = "error norm {:.2e} against float64"  # what `check` answers

ALPHA = 0.75  # so that it shows where a kernel forgets it
_REFERENCE_ROWS = 256  # of D that are checked, spread over it


def op_of(a: str, b: str) -> Any:
    """The public op that multiplies matrices of these formats."""
    if bits(a) != bits(b):
        return op.mm_mxfp8_mxfp4
    return {"nvfp4": op.mm_nvfp4, "mxfp4": op.mm_mxfp4}.get(a, op.mm_mxfp8)


@dataclass
class Operands:
    """One set of random operands, and D with the scale factors of a quantised one."""

    problem: Problem
    a: torch.Tensor
    b: torch.Tensor
    a_scales: torch.Tensor
    b_scales: torch.Tensor
    alpha: torch.Tensor
    global_scale: torch.Tensor | None = None  # of a quantised D
    c: torch.Tensor | None = None  # counts once where there is one
    written: tuple[torch.Tensor, ...] = ()  # by the first call: D, and of a quantised one its scale factors

    def poison(self) -> None:
        """Fills what was written with what no kernel writes."""
        for tensor in self.written:
            measuring.poison(tensor)

    def call(self, tactic: Tactic | None = None) -> Any:
        """D of ours; of a quantised one its scale factors too."""
        out, descale = (*self.written, None, None)[:2]
        made = op_of(self.problem.a, self.problem.b)(
            self.a, self.b, self.a_scales, self.b_scales, self.alpha, dtype_of(self.problem.d), out,
            c=self.c, beta=0.0 if self.c is None else 1.0,
            out_descale=descale, out_global_scale=self.global_scale, tactic=tactic,
        )  # fmt: skip
        self.written = made if isinstance(made, tuple) else (made,)
        return made

    def check(self) -> float:
        """The error norm of D against float64, over rows spread evenly (every batch).

        Raises WrongResultError where an element, the norm or the angle is too far off.
        """
        problem = self.problem
        step = max(1, problem.m // _REFERENCE_ROWS)
        rows = scale_factors.unswizzle(self.a_scales, problem.m, problem.k, BLOCK[problem.a], SCALE_LAYOUT)
        scales = scale_factors.swizzle(rows[..., ::step, :], SCALE_LAYOUT)
        call = (self.a[..., ::step, :], self.b, scales, self.b_scales, problem.a)
        options: dict[str, Any] = {"format_b": problem.b, "alpha": self.alpha}
        if self.c is not None:
            options |= {"c": self.c[..., ::step, :], "beta": 1.0}
        exact, size = reference.product(*call, **options), reference.magnitude(*call, **options)
        found = self._value()[..., ::step, :]
        compared = reference.compare(
            found, exact, size, problem.d if problem.quantizes else None,
            slack=reference.accumulation_slack(problem.k),
            global_scale=1.0 if self.global_scale is None else float(self.global_scale),
        )  # fmt: skip
        if not compared.passes(cosine=0.99 if problem.quantizes else 0.999):
            raise WrongResultError(f"{problem}: {compared}")
        return float((found.double() - exact).norm() / exact.norm())

    def _value(self) -> torch.Tensor:
        """What D stands for."""
        if not self.problem.quantizes:
            return self.written[0]
        data, scales = self.written
        return reference.dequantize(data, scales, self.problem.d, global_scale=self.global_scale)

    @functools.cached_property
    def dequantized(self) -> tuple[torch.Tensor, torch.Tensor]:
        """A and B in BF16, with alpha in A."""
        problem = self.problem
        a = reference.dequantize(self.a, self.a_scales, problem.a) * self.alpha
        b = reference.dequantize(self.b.mT, self.b_scales, problem.b)
        return a.bfloat16(), b.bfloat16().mT


def make_operands(problem: Problem, device: DeviceProperties, seed: int = 0) -> list[Operands]:
    """As many sets as keep L2 cold when they are taken in turn: copies of one, which lie elsewhere."""
    generator = torch.Generator("cuda").manual_seed(seed)
    batch = (problem.batch,) if problem.batch > 1 else ()

    def random(rows: int, name: str) -> tuple[torch.Tensor, torch.Tensor]:
        value = torch.randn((*batch, rows, problem.k), generator=generator, device="cuda")
        return reference.quantize(value, name)

    (a, a_scales), (b, b_scales) = random(problem.m, problem.a), random(problem.n, problem.b)
    alpha = torch.full((1,), ALPHA, device="cuda")
    first = Operands(problem, a, b.mT, a_scales, b_scales, alpha)
    if problem.d == "nvfp4":  # of elements of about alpha * sqrt(k), of which few exceed six times that
        first.global_scale = torch.full((1,), 448.0 / (ALPHA * problem.k**0.5), device="cuda")
    if problem.c:
        first.c = measuring.random_matrix(INTERFACE.matrices["c"], problem, generator)
    dequantized = 2 * problem.batch * problem.k * (problem.m + problem.n)
    return measuring.copies(first, measuring.sets(problem, device, dequantized))


def peer(problem: Problem) -> Peer[Operands] | None:
    """torch.mm on what the operands stand for, dequantised to BF16 beforehand: the product alone, of two to
    four times the bytes."""
    if problem.c:
        return None
    if problem.batch > 1:
        return "torch.bmm on bf16", lambda x: torch.bmm(*x.dequantized)
    return "torch.mm on bf16", lambda x: torch.mm(*x.dequantized)
