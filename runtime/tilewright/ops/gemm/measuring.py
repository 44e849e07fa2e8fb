"""Operands, peers and checks with which `gemm` is measured: on random data, beside torch, correct first."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from tilewright.device import DeviceProperties
from tilewright.ops.common import measuring
from tilewright.ops.common.formats import dtype_of
from tilewright.ops.common.measuring import Peer
from tilewright.ops.common.tactics import Tactic
from tilewright.ops.gemm.interface import INTERFACE
from tilewright.ops.gemm.op import ACTIVATED, gemm
from tilewright.ops.gemm.problem import FP8, Problem

ERROR = "error norm {:.2e} against float64"  # what `check` answers

# What an error norm may be: D's rounding, and what sums lose (fast FP8 sums most).
_TOLERANCES = {"bf16": 4e-3, "f16": 2e-3, "f32": 2e-3, "s32": 0.0, "e4m3": 4e-2, "e5m2": 8e-2}
_FAST_TOLERANCE = 4e-5  # times the square root of k, of the error norm; half to two thirds is measured
_RATIO_TOLERANCE = 0.01  # of the norms' ratio at most, so that a wrong alpha shows whatever sums lose
_REFERENCE_ROWS = 512  # of D that are checked, spread over it


@dataclass
class Operands:
    """One set of random operands, and D. C counts once where there is one."""

    problem: Problem
    a: torch.Tensor
    b: torch.Tensor
    out: torch.Tensor
    scale: torch.Tensor | None = None
    c: torch.Tensor | None = None
    bias: torch.Tensor | None = None
    scale_result: torch.Tensor | None = None

    def poison(self) -> None:
        measuring.poison(self.out)

    def call(self, tactic: Tactic | None = None) -> torch.Tensor:
        """D of ours."""
        return gemm(
            self.a, self.b, out=self.out, scale_a=self.scale, scale_b=self.scale, tactic=tactic,
            activation=self.problem.activation, fast_accum=self.problem.fast_accum,
            c=self.c, beta=0 if self.c is None else 1, bias=self.bias, scale_result=self.scale_result,
        )  # fmt: skip

    def check(self) -> float:
        """The error norm of D against float64, over rows spread evenly (every batch).

        Raises WrongResultError where the norm of the error, or the ratio of the norms, is too far off.
        """
        problem = self.problem
        step = max(1, problem.m // _REFERENCE_ROWS)
        wanted = self.a[..., ::step, :].double() @ self.b.double()
        if self.c is not None:
            wanted += self.c[..., ::step, :].double()
        if self.bias is not None:
            wanted += self.bias.double()
        scale = 1.0 if self.scale_result is None else float(self.scale_result)
        wanted = ACTIVATED[problem.activation](wanted) * scale
        found = self.out[..., ::step, :].double()
        fast = _FAST_TOLERANCE * math.sqrt(problem.k) if problem.fast_accum else 0.0
        tolerance = _TOLERANCES[problem.d] + fast
        # The norms' ratio is held closer, since roundings cancel out in it, so that a wrong alpha shows.
        return measuring.check_norms(problem, found, wanted, tolerance, min(tolerance, _RATIO_TOLERANCE))


def make_operands(problem: Problem, device: DeviceProperties, seed: int = 0) -> list[Operands]:
    """As many sets as keep L2 cold when they are taken in turn: copies of one, which lie elsewhere."""
    first = make(problem, torch.Generator("cuda").manual_seed(seed))
    return measuring.copies(first, measuring.sets(problem, device))


def make(problem: Problem, generator: torch.Generator) -> Operands:
    """One set, on the generator's device."""
    device = generator.device
    matrices = measuring.random_matrices(INTERFACE, problem, generator)
    shape = (problem.batch, problem.m, problem.n) if problem.batch > 1 else (problem.m, problem.n)
    made = Operands(problem, out=torch.empty(shape, dtype=dtype_of(problem.d), device=device), **matrices)
    if problem.bias:
        bias = torch.randn(problem.n, generator=generator, device=device) * (8 if problem.integer else 1)
        made.bias = bias.to(dtype_of(problem.type_of_bias))
    if problem.a in FP8:
        made.scale = torch.ones((), device=device)
    if problem.d in FP8:  # so that results are about 16: FP8 holds those of five deviations
        made.scale_result = torch.tensor(16 / math.sqrt(problem.k), device=device)
    return made


def peer(problem: Problem) -> Peer[Operands] | None:
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
            scale_a=x.scale,
            scale_b=x.scale,
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
