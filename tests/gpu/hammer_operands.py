"""Operands of a case, and whether what a kernel makes of them is right."""

from __future__ import annotations

from typing import Any

import torch
from hammer_case import Case

from tilewright import reference
from tilewright.declarations import catalog
from tilewright.errors import WrongResultError
from tilewright.families.mqa_logits.op import paged_mqa_schedule
from tilewright.families.mqa_logits.problem import Problem as Logits
from tilewright.tools import measuring

_TILE = 64  # keys of which a schedule counts
_ROUNDING = {torch.bfloat16: 2.0**-6, torch.float16: 2.0**-8, torch.float32: 2.0**-8}
_OF_ALL = 0.03  # of the root mean square: what one element may differ besides; a wrong one differs by about 1


class _Schedule(measuring.Operands):
    """A call of `paged_mqa_schedule`."""

    def check(self) -> float:
        problem = self.problem
        tiles = self.lengths.view(-1, problem.next_n).amax(1).add(_TILE - 1).div(_TILE, rounding_mode="floor")
        ends = tiles.long().cumsum(0)
        begins = torch.arange(problem.blocks + 1, device=ends.device) * ends[-1] // problem.blocks
        sequence = torch.searchsorted(ends, begins, right=True)
        before = torch.cat((ends.new_zeros(1), ends))[sequence]
        within = torch.where(sequence < len(ends), begins - before, 0)
        if not torch.equal(self.out.long(), torch.stack((sequence, within), 1)):
            raise WrongResultError(f"{problem}: the schedule is not what its definition says")
        return 0.0


def operands_of(family: str, case: Case, device: str = "cuda") -> Any:
    """Random operands, with the case's groups."""
    generator, problem = torch.Generator(device).manual_seed(0), case.problem
    if isinstance(problem, Logits) and problem.form == "schedule":
        size = (problem.queries,)
        lengths = torch.randint(0, 5000, size, generator=generator, device=device, dtype=torch.int32)
        return _Schedule(
            problem, paged_mqa_schedule, lengths=lengths, blocks=problem.blocks, next_n=problem.next_n
        )
    operands = catalog.family_module(family, "measuring").make(problem, generator)
    if case.groups:
        given = torch.tensor(case.groups, dtype=torch.int32, device=device)
        ((name, layout),) = operands.layout.items()
        if name == "group_of_row":
            given = reference.groups_of_rows(given, problem.m, problem.row_alignment)
        layout.copy_(given)
    return operands


def written(operands: Any) -> dict[str, torch.Tensor]:
    """The tensors that the call writes, by name."""
    return {name: getattr(operands, name) for name in operands._written}


def run(operands: Any, tactic: Any, views: Any) -> None:
    """The call, into other memory."""
    vars(operands).update(views)
    operands.call(tactic)


def fault(operands: Any, views: Any) -> str:
    """Why what was written is not right by the family's reference; empty where it is."""
    vars(operands).update(views)
    try:
        operands.check()
    except WrongResultError as error:
        return str(error)
    return ""


def far_apart(operands: Any, found: torch.Tensor, wanted: torch.Tensor) -> int:
    """How many elements of two kernels' results differ by more than rounding: of rows that count, for types
    of 16 bits or more. NaN is like NaN."""
    if found.dtype not in _ROUNDING:
        return 0
    if getattr(operands, "layout", None) and operands.problem.grouping != "k_sizes":
        rows = operands.groups() >= 0
        found, wanted = (x.reshape(-1, x.shape[-1])[rows] for x in (found, wanted))
    rounding = _ROUNDING[found.dtype]
    count = 0
    finite = wanted.isfinite()
    rms = float(wanted.where(finite, 0).float().square().mean().sqrt())
    for mine, other in zip(found.split(2048), wanted.split(2048), strict=True):
        difference = (mine.float() - other.float()).abs()
        near = difference <= rounding * other.float().abs() + _OF_ALL * rms
        near |= (mine == other) | (mine.isnan() & other.isnan())
        count += int((~near).sum())
    return count
