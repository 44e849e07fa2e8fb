"""Products of groups for the GPU tests of `grouped_gemm`'s kernels: their operands, and the check of D."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
import torch

from tilewright.architectures.device import H200
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic
from tilewright.families.grouped_gemm import measuring
from tilewright.families.grouped_gemm.family import FAMILY
from tilewright.families.grouped_gemm.problem import Problem
from tilewright.tools.measuring import check_norms

MARK = 77.0  # in D before a kernel writes to it
TOLERANCES = {"bf16": 4e-3, "f32": 2e-3}  # of the error norm, by D's type
RATIO_TOLERANCE = 2e-3  # of the norms' ratio
ELEMENT_ERROR = 0.03  # of one element, of the root mean square of all; a wrong one is off by about 1


def of(kernel: KernelRecord, **fields: Any) -> Problem:
    config = kernel.config
    if config["layout"] == "nt" and fields.get("grouping") != "k_sizes":
        pytest.skip("it multiplies parts of k alone")
    if config["constant_b"] and fields.get("grouping", "none") != "none":
        pytest.skip("products of groups do not say that B is constant")
    types = {name: config[name] for name in ("a", "b", "d", "scales", "layout", "constant_b")}
    return Problem(**{"m": 300, "n": 392, "k": 656, **types, **fields})


def made(problem: Problem, seed: int = 0) -> measuring.Operands:
    actual = measuring.make(problem, torch.Generator("cuda").manual_seed(seed))
    actual.out.fill_(MARK)
    return actual


def tactics(kernel: KernelRecord, problem: Problem) -> Iterator[Tactic]:
    """Each cluster and split that the model weighs, and an order of tiles that it does not."""
    yield Tactic(kernel.name, raster="along_n", swizzle=4)
    yield from FAMILY.candidates(kernel, problem, H200)


def clusters(kernel: KernelRecord, *several: str) -> tuple[str, ...]:
    """These clusters, or none for a kernel of mma.sync."""
    return several if kernel.config["mainloop"] == "lean" else ("",)


def spoil(operands: measuring.Operands) -> None:
    """Fills what A and its scale factors hold in rows of padding with NaN."""
    problem = operands.problem
    padding = (operands.groups() < 0).reshape(operands.a.shape[:-1])
    if problem.a == "e4m3":
        operands.a.view(torch.uint8)[padding] = 0x7F
        assert operands.scale_a is not None
        operands.scale_a.masked_fill_(padding[..., None], float("nan"))
    else:
        operands.a[padding] = float("nan")


class Expected(NamedTuple):
    """What D of some operands should hold."""

    state: list[tuple[torch.Tensor, int]]  # tensors that decide, each with torch's count of writes to it
    counts: torch.Tensor  # which rows of D count
    values: torch.Tensor  # of the rows that count, in float64


_kept: list[Expected] = []  # of the operands that were asked about last


def expected_of(operands: measuring.Operands) -> Expected:
    """Computed once for operands that several tactics multiply: it takes longer than the rest of a test."""
    names = ("a", "b", "scale_a", "scale_b", "c")
    given = [*(getattr(operands, name) for name in names), *operands.layout.values()]
    state = [(tensor, tensor._version) for tensor in given if tensor is not None]
    same = _kept and len(_kept[0].state) == len(state)
    pairs = zip(_kept[0].state, state, strict=True) if same else ()
    if not same or not all(old is new and before == now for (old, before), (new, now) in pairs):
        _kept.clear()  # its memory is free before more is taken
        by_k = operands.problem.grouping == "k_sizes"
        counts = torch.full(operands.out.shape[:-1], True, device=operands.out.device)
        if not by_k:
            counts = (operands.groups() >= 0).reshape(counts.shape)
        _kept.append(Expected(state, counts, operands.compared(every=True)[1]))
    return _kept[0]


def elements_right(operands: measuring.Operands, what: object = "") -> None:
    """Norms, and each element of every row that counts: norms do not see a wrong one among many."""
    _, counts, expected = expected_of(operands)
    actual = operands.out[counts].double().reshape(expected.shape)
    tolerance = TOLERANCES[operands.problem.d]
    check_norms(operands.problem, actual, expected, tolerance, RATIO_TOLERANCE)
    rms = float(expected.square().mean().sqrt())
    rounding = expected.abs() * (2.0**-8 if operands.problem.d == "bf16" else 2.0**-20)
    excess = (actual - expected).abs() - rounding - ELEMENT_ERROR * rms
    worst = int(excess.nan_to_num(float("inf")).argmax())
    assert bool((excess <= 0).all()), (
        f"{what}: {int((~(excess <= 0)).sum())} elements are wrong, the worst "
        f"{float(actual.flatten()[worst])} instead of {float(expected.flatten()[worst])}"
    )


def check(operands: measuring.Operands, tactic: Tactic | None = None) -> None:
    """D is right where rows count, and zero or untouched elsewhere."""
    operands.call(tactic)
    judge(operands, tactic)


def judge(operands: measuring.Operands, tactic: Tactic | None) -> None:
    counts = expected_of(operands).counts
    if counts.any():
        elements_right(operands, tactic)
    rest = operands.out[~counts]
    assert ((rest == 0) | (rest == MARK)).all(), f"{tactic}: padding leaks"


def call_in_place(operands: measuring.Operands, tactic: Tactic) -> None:
    """D is the C that it is added to, whose values `operands.c` keeps."""
    before = torch.randn_like(operands.out)
    operands.out.copy_(before)
    operands.c = operands.out
    operands.call(tactic)
    operands.c = before
