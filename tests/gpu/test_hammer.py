"""Every kernel that this GPU runs, thousands of times under a neighbour that saturates memory: equal bits.

    for i in $(seq 6); do
      TILEWRIGHT_SHARE=$i/6 TILEWRIGHT_RECORD=FILE pytest tests/gpu/test_hammer.py &
    done; wait

TILEWRIGHT_HAMMER_RUNS (2,000) says how many runs a kernel has at least, over problems with few stages of k
and with whole and partial tiles in turn. They are compared with the bits of a run while nothing else runs,
which the family's reference has judged.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any, NamedTuple

import generated_kernels
import hammer
import pytest
import torch
from hammer_case import Case
from hammer_operands import far_apart, fault, operands_of, run, written
from hammer_problems import CASES, cases
from recording import LEAST_HAMMERED
from shares import SHARE

from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic
from tilewright.selection.families import family_of

RUNS = int(os.environ.get("TILEWRIGHT_HAMMER_RUNS", LEAST_HAMMERED))
_ARENA_SHARE, _MOST_ARENA = 0.5, 40 * 2**30  # of a process's share of the memory; bytes
_NEIGHBOUR = 4 * 2**30  # bytes
_QUIET = 3  # runs
_SIXTEEN = ("bf16", "f16")


class Result(NamedTuple):
    runs: int
    wrong: int
    what: str  # was wrong


class Machine(NamedTuple):
    arena: torch.Tensor
    neighbour: hammer.Neighbour


@functools.cache
def machine() -> Machine:
    """Memory of this process: its share of the GPU's, and what its neighbour fills."""
    processes = int(os.environ.get(SHARE, "1/1").rpartition("/")[2])
    total = torch.cuda.get_device_properties(0).total_memory // processes
    size = min(int(_ARENA_SHARE * total), _MOST_ARENA) // hammer.PAGE * hammer.PAGE
    return Machine(hammer.arena(size), hammer.Neighbour(min(_NEIGHBOUR, total // 5)))


def names() -> list[str]:
    """The names of the kernels that this GPU runs; none without a GPU."""
    if not torch.cuda.is_available():
        return []
    return [name for family in CASES for name in generated_kernels.names(family)]


@pytest.fixture(params=names())
def hammered(request: pytest.FixtureRequest) -> KernelRecord:
    """Not called `kernel`: this test says nothing of whether a kernel has passed the others."""
    registry = generated_kernels.registry()
    record = registry.record(request.param)
    if not registry.is_built(record):
        pytest.skip("not built: run `tilewright build`")
    return record


@pytest.mark.timeout(300)
def test_all_runs_have_the_same_bits(
    hammered: KernelRecord, record_property: Callable[[str, object], None]
) -> None:
    family = generated_kernels.registry().table_of(hammered.name).family
    several = cases(family, hammered)
    assert several, "no problem suits it"
    runs = max(-(-RUNS // len(several)), RUNS // 4)  # of each case
    try:
        results = [hammer_case(family, hammered, case, runs) for case in several]
    except Exception:  # which leaves results in the arena
        hammer.poison(machine().arena)
        raise
    total, wrong = sum(one.runs for one in results), sum(one.wrong for one in results)
    record_property("hammered", {"kernel": hammered.name, "runs": total, "wrong": wrong})
    actual = [f"{wrong} of {total} runs have wrong bits:", *(one.what for one in results if one.wrong)]
    assert not wrong, "\n".join(actual)


def hammer_case(family: str, record: KernelRecord, case: Case, runs: int) -> Result:
    """Judges a quiet run, and compares the others with it. If it is wrong, another kernel's result is the
    right one where kernels have equal bits, and else all runs count as wrong."""
    arena, neighbour = machine()
    operands = operands_of(family, case)
    places = hammer.Places(arena, written(operands))
    quiet = min(_QUIET, places.count)
    call = functools.partial(run, operands, case.tactic)
    why = "" if hammer.quiet_runs_equal(call, places, quiet) else "quiet runs differ"
    why = why or fault(operands, places.views(0))
    expected = places.words[0]
    other = other_kernel(family, record, case)
    trusted = not why
    if other is not None and quiet < places.count:
        run(operands, Tactic(other.name), places.views(quiet))
        apart = far_apart(operands, places.views(0)["out"], places.views(quiet)["out"])
        why = why or (f"{apart} elements are not {other.name}'s" if apart else "")
        trusted = not why
        if why and case.problem.a in _SIXTEEN and not fault(operands, places.views(quiet)):
            expected, trusted = places.words[quiet], True
    expected = expected.clone()
    wrong = int((places.words[:quiet] != expected).any(1).sum())
    places.poison(0, min(quiet + 1, places.count))
    total, what = quiet + runs, f"{case.tactic}, {case.problem}"
    if not trusted:
        return Result(total, total, f"  alone, {what}: {why}")
    with neighbour.filling():
        wrong += hammer.count_wrong(call, places, expected, runs, beside=neighbour)
    return Result(total, wrong, f"  {wrong} of {total}, {what}" + (f"; alone: {why}" if why else ""))


@functools.cache
def kernels_of(family: str) -> list[KernelRecord]:
    return generated_kernels.registry().kernels(family)


def other_kernel(family: str, record: KernelRecord, case: Case) -> KernelRecord | None:
    """A built kernel with another tile that computes the problem."""
    if "tile" not in record.config or family not in ("gemm", "grouped_gemm", "reduced_gemm"):
        return None
    registry, of_family = generated_kernels.registry(), family_of(family)
    kind: Any = case.problem.kind
    for other in of_family.of_kind(registry, kernels_of(family), kind):
        if other.arch != record.arch or other.config["tile"] == record.config["tile"]:
            continue
        fits = of_family.misfit_tactic(Tactic(other.name), other, case.problem) is None
        if fits and registry.is_built(other):
            return other
    return None
