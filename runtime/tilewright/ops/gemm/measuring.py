"""Operands, peers and checks with which `gemm` is measured: on random data, beside torch, correct first."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from tilewright import timing
from tilewright.device import DeviceProperties
from tilewright.errors import TilewrightError
from tilewright.ops.common.tactics import Tactic
from tilewright.ops.gemm.arguments import OPERAND_NAMES, OUTPUT_DTYPES
from tilewright.ops.gemm.op import gemm
from tilewright.ops.gemm.problem import FP8, Problem

_DTYPES = {name: dtype for dtype, name in OPERAND_NAMES.items()}
# What an error norm may be: D's rounding, and what sums lose (fast FP8 sums most).
_TOLERANCES = {"bf16": 4e-3, "f16": 2e-3, "f32": 2e-3, "s32": 0.0}
_FAST_TOLERANCE = 5e-6  # times k, of the error norm
_RATIO_TOLERANCE = 0.01  # of the norms' ratio at most, so that a wrong alpha shows whatever sums lose
_MOST_BYTES = 16 * 10**9
_REFERENCE_ROWS = 512  # of D that are checked, spread over it


class WrongResultError(TilewrightError):
    """A kernel computed something else than the reference."""

    exit_code = 1


@dataclass
class Operands:
    """One set of random operands, and D filled with NaN (integers: a pattern)."""

    a: torch.Tensor
    b: torch.Tensor
    out: torch.Tensor
    scale: torch.Tensor | None

    def call(self, problem: Problem, tactic: Tactic | None = None) -> torch.Tensor:
        """D of ours."""
        return gemm(
            self.a, self.b, out=self.out, scale_a=self.scale, scale_b=self.scale, tactic=tactic,
            activation=problem.activation, fast_accum=problem.fast_accum,
        )  # fmt: skip


def make_operands(problem: Problem, device: DeviceProperties, seed: int = 0) -> list[Operands]:
    """As many sets as keep L2 cold when they are taken in turn."""
    count = timing.rotations(problem.bytes, device.l2_bytes)
    count = max(1, min(count, _MOST_BYTES // problem.bytes))
    generator = torch.Generator("cuda").manual_seed(seed)
    return [_make(problem, generator) for _ in range(count)]


def _make(problem: Problem, generator: torch.Generator) -> Operands:
    a = _random((problem.m, problem.k), problem.a, problem, generator, problem.a_k_major)
    b = _random((problem.k, problem.n), problem.b, problem, generator, not problem.b_k_major)
    shape = (problem.batch, problem.m, problem.n) if problem.batch > 1 else (problem.m, problem.n)
    poison = math.nan if problem.d != "s32" else 0x5A5A5A5A
    out = torch.full(shape, poison, dtype=OUTPUT_DTYPES[problem.d], device="cuda")
    scale = torch.ones((), device="cuda") if problem.a in FP8 else None
    return Operands(a, b, out, scale)


def _random(
    shape: tuple[int, int], dtype: str, problem: Problem, generator: torch.Generator, row_major: bool
) -> torch.Tensor:
    whole = (problem.batch, *shape) if problem.batch > 1 else shape
    if not row_major:
        whole = (*whole[:-2], whole[-1], whole[-2])
    if dtype == "s8":
        made = torch.randint(-128, 128, whole, generator=generator, device="cuda", dtype=torch.int8)
    else:
        made = torch.randn(whole, generator=generator, device="cuda").to(_DTYPES[dtype])
    return made if row_major else made.mT


def peer(problem: Problem) -> tuple[str, Callable[[Operands], Any]] | None:
    """The name of torch's op for the problem, and a call of it; None where torch has none."""
    if problem.activation != "none":
        return None
    if problem.a in FP8:
        if problem.batch > 1:
            return None
        dtype = OUTPUT_DTYPES[problem.d]
        return "torch._scaled_mm", lambda x: torch._scaled_mm(
            x.a, x.b, scale_a=x.scale, scale_b=x.scale, out_dtype=dtype, use_fast_accum=problem.fast_accum
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


def check(problem: Problem, operands: Operands, found: torch.Tensor) -> float:
    """The error norm of D against float64, over rows spread evenly (every batch).

    Raises WrongResultError where the norm of the error, or the ratio of the norms, is too far off.
    """
    step = max(1, problem.m // _REFERENCE_ROWS)
    wanted = operands.a[..., ::step, :].double() @ operands.b.double()
    activate: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
        "none": lambda x: x,
        "relu": torch.relu,
        "gelu": torch.nn.functional.gelu,
        "silu": torch.nn.functional.silu,
    }
    wanted = activate[problem.activation](wanted)
    value = found[..., ::step, :].double()
    norm = float(wanted.norm())
    error = float((value - wanted).norm()) / norm
    ratio = float(value.norm()) / norm
    fast = _FAST_TOLERANCE * problem.k if problem.fast_accum else 0.0
    tolerance = _TOLERANCES[problem.d] + fast
    ratio_tolerance = min(tolerance, _RATIO_TOLERANCE)
    if not (error <= tolerance and abs(ratio - 1) <= ratio_tolerance):  # a NaN fails
        raise WrongResultError(
            f"{problem}: error norm {error:.2e}, norm ratio {ratio:.6f}; "
            f"{tolerance:.0e} and 1 +- {ratio_tolerance:.0e} are allowed"
        )
    return error


def seconds(
    problem: Problem, operands: list[Operands], tactic: Tactic | None = None, replays: int = 15
) -> float:
    """Median seconds of a call of ours, L2 cold. D is checked first."""
    operands[0].out.copy_(torch.full_like(operands[0].out, 0 if problem.d == "s32" else math.nan))
    check(problem, operands[0], operands[0].call(problem, tactic))
    return timing.graph_seconds([lambda x=one: x.call(problem, tactic) for one in operands], replays=replays)  # type: ignore[misc]


def peer_seconds(problem: Problem, operands: list[Operands], replays: int = 15) -> float | None:
    """Median seconds of torch's op, measured the same way; None where there is none."""
    found = peer(problem)
    if found is None:
        return None
    _, call = found
    return timing.graph_seconds([lambda x=one: call(x) for one in operands], replays=replays)  # type: ignore[misc]
