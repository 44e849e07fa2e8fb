"""Operands, peers and checks with which `gemm` is measured: on random data, beside torch, correct first."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from tilewright.device import DeviceProperties
from tilewright.errors import WrongResultError
from tilewright.ops.common import measuring
from tilewright.ops.common.formats import dtype_of
from tilewright.ops.common.measuring import Peer
from tilewright.ops.common.tactics import Tactic
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
        scale = 1.0 if self.scale_result is None else float(self.scale_result)
        return check(self.problem, self.a, self.b, self.out, c=self.c, bias=self.bias, scale_result=scale)


def make_operands(problem: Problem, device: DeviceProperties, seed: int = 0) -> list[Operands]:
    """As many sets as keep L2 cold when they are taken in turn: copies of one, which lie elsewhere."""
    generator = torch.Generator("cuda").manual_seed(seed)
    first = _make(problem, generator)
    return [first, *(_copy(first) for _ in range(measuring.sets(problem, device) - 1))]


def _make(problem: Problem, generator: torch.Generator) -> Operands:
    a = _random((problem.m, problem.k), problem.a, problem, generator, problem.a_k_major)
    b = _random((problem.k, problem.n), problem.b, problem, generator, not problem.b_k_major)
    shape = (problem.batch, problem.m, problem.n) if problem.batch > 1 else (problem.m, problem.n)
    out = torch.empty(shape, dtype=dtype_of(problem.d), device="cuda")
    scale = torch.ones((), device="cuda") if problem.a in FP8 else None
    c = _added(tuple(shape), problem.type_of_c, generator) if problem.c else None
    bias = _added((problem.n,), problem.type_of_bias, generator) if problem.bias else None
    # So that results are about 16: FP8 holds those of five deviations.
    scale_result = torch.tensor(16 / math.sqrt(problem.k), device="cuda") if problem.d in FP8 else None
    return Operands(problem, a, b, out, scale, c, bias, scale_result)


def _copy(first: Operands) -> Operands:
    """Strides stay: a matrix is dense, whichever of its sides is contiguous."""
    a, b = first.a.clone(), first.b.clone()
    c = None if first.c is None else first.c.clone()
    out = torch.empty_like(first.out)
    return Operands(first.problem, a, b, out, first.scale, c, first.bias, first.scale_result)


def _added(shape: tuple[int, ...], dtype: str, generator: torch.Generator) -> torch.Tensor:
    """C, or a bias."""
    if dtype == "s32":
        return torch.randint(-128, 128, shape, generator=generator, device="cuda", dtype=torch.int32)
    return torch.randn(shape, generator=generator, device="cuda").to(dtype_of(dtype))


def _random(
    shape: tuple[int, int], dtype: str, problem: Problem, generator: torch.Generator, row_major: bool
) -> torch.Tensor:
    whole = (problem.batch, *shape) if problem.batch > 1 else shape
    if not row_major:
        whole = (*whole[:-2], whole[-1], whole[-2])
    if dtype == "s8":
        made = torch.randint(-128, 128, whole, generator=generator, device="cuda", dtype=torch.int8)
    else:
        made = torch.randn(whole, generator=generator, device="cuda").to(dtype_of(dtype))
    return made if row_major else made.mT


def peer(problem: Problem) -> Peer[Operands] | None:
    """The name of torch's op for the problem, and a call of it; None where torch has none."""
    if problem.activation != "none" or problem.c or problem.bias:
        return None
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


def check(
    problem: Problem,
    a: torch.Tensor,
    b: torch.Tensor,
    found: torch.Tensor,
    *,
    c: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    scale_result: float = 1.0,
) -> float:
    """As `Operands.check`, of a D that is `found`."""
    step = max(1, problem.m // _REFERENCE_ROWS)
    wanted = a[..., ::step, :].double() @ b.double()
    if c is not None:
        wanted += c[..., ::step, :].double()
    if bias is not None:
        wanted += bias.double()
    wanted = ACTIVATED[problem.activation](wanted) * scale_result
    value = found[..., ::step, :].double()
    norm = float(wanted.norm())
    error = float((value - wanted).norm()) / norm
    ratio = float(value.norm()) / norm
    fast = _FAST_TOLERANCE * math.sqrt(problem.k) if problem.fast_accum else 0.0
    tolerance = _TOLERANCES[problem.d] + fast
    ratio_tolerance = min(tolerance, _RATIO_TOLERANCE)  # roundings of FP8 too cancel out
    if not (error <= tolerance and abs(ratio - 1) <= ratio_tolerance):  # a NaN fails
        raise WrongResultError(
            f"{problem}: error norm {error:.2e}, norm ratio {ratio:.6f}; "
            f"{tolerance:.0e} and 1 +- {ratio_tolerance:.0e} are allowed"
        )
    return error
