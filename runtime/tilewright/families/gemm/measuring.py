"""Random operands, checks of results, and torch's ops as peers, with which `gemm` is measured."""

from __future__ import annotations

import math
from typing import Any

import torch

from tilewright.families.gemm.interface import INTERFACE
from tilewright.families.gemm.op import ACTIVATED, gemm
from tilewright.families.gemm.problem import FP8, Problem
from tilewright.formats.dtypes import dtype_of
from tilewright.tools import measuring
from tilewright.tools.measuring import Peer

# The largest error norms: D's rounding, and the precision that sums lose (most with fast FP8 sums).
_TOLERANCES = {"bf16": 4e-3, "f16": 2e-3, "f32": 2e-3, "s32": 0.0, "e4m3": 4e-2, "e5m2": 8e-2}
_FAST_TOLERANCE = (
    4e-5  # times the square root of k: the largest error norm. Measured: half to two thirds of that
)
_RATIO_TOLERANCE = 0.01  # of the ratio of norms, at most: a wrong alpha shows although sums lose precision


class Operands(measuring.Operands):
    """A call of `gemm`. With C, beta is 1."""

    def check(self) -> float:
        """The error norm over rows spread evenly, in every batch. Raises WrongResultError if it, or the ratio
        of the norms, is too far off."""
        problem, rows = self.problem, measuring.spread(self.problem.m)
        expected = self.a[..., rows, :].double() @ self.b.double()
        if self.c is not None:
            expected += self.c[..., rows, :].double()
        if self.bias is not None:
            expected += self.bias.double()
        scale = 1.0 if self.scale_result is None else float(self.scale_result)
        expected = ACTIVATED[problem.activation](expected) * scale
        actual = self.out[..., rows, :].double()
        fast = _FAST_TOLERANCE * math.sqrt(problem.k) if problem.fast_accum else 0.0
        tolerance = _TOLERANCES[problem.d] + fast
        # Roundings cancel out in the ratio of the norms. Its tolerance is smaller, so that a wrong alpha
        # shows.
        return measuring.check_norms(problem, actual, expected, tolerance, min(tolerance, _RATIO_TOLERANCE))


def make(problem: Problem, generator: torch.Generator) -> Operands:
    """One set, on the generator's device."""
    device = generator.device
    arguments: dict[str, Any] = dict(measuring.random_matrices(INTERFACE, problem, generator))
    if problem.bias:
        bias = torch.randn(problem.n, generator=generator, device=device) * (8 if problem.integer else 1)
        arguments["bias"] = bias.to(dtype_of(problem.type_of_bias))
    if problem.a in FP8:
        arguments |= dict.fromkeys(("scale_a", "scale_b"), torch.ones((), device=device))
    if problem.d in FP8:  # results have a deviation of about 16, so that FP8 holds five deviations
        arguments["scale_result"] = torch.tensor(16 / math.sqrt(problem.k), device=device)
    return operands(problem, **arguments)


def operands(problem: Problem, **tensors: Any) -> Operands:
    """A call on these tensors."""
    options = {"activation": problem.activation, "fast_accum": problem.fast_accum}
    return Operands(problem, gemm, beta=float(problem.c), out_dtype=dtype_of(problem.d), **options, **tensors)


def peer(problem: Problem) -> Peer | None:
    """The name of torch's op for the problem, and a call of it; None where torch has none."""
    if problem.activation != "none" or problem.bias:
        return None
    if problem.c:
        if problem.batch > 1 or problem.a not in ("bf16", "f16") or problem.d != problem.a or problem.c_type:
            return None
        return "torch.addmm", lambda x: torch.addmm(x.c, x.a, x.b, out=x.out)
    if problem.a in FP8:
        if problem.batch > 1 or (problem.a, problem.b) == ("e5m2", "e5m2"):  # cuBLAS has no such product
            return None
        dtype = dtype_of(problem.d)
        return "torch._scaled_mm", lambda x: torch._scaled_mm(
            x.a,
            x.b,
            scale_a=x.scale_a,
            scale_b=x.scale_b,
            scale_result=x.scale_result,
            out_dtype=dtype,
            use_fast_accum=problem.fast_accum,
        )
    if problem.a == "s8":
        if problem.batch > 1 or problem.m <= 16:  # torch refuses fewer rows
            return None
        return "torch._int_mm", lambda x: torch._int_mm(x.a, x.b, out=x.out)
    torch.backends.cuda.matmul.allow_tf32 = True
    if problem.a != "tf32" and problem.d == "f32":
        if problem.batch > 1:
            return None
        return "torch.mm", lambda x: torch.mm(x.a, x.b, out_dtype=torch.float32)
    if problem.batch > 1:
        return "torch.bmm", lambda x: torch.bmm(x.a, x.b, out=x.out)
    return "torch.mm", lambda x: torch.mm(x.a, x.b, out=x.out)
