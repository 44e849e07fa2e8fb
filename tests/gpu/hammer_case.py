"""A problem and a tactic with which the hammer runs a kernel, and the extents that such problems have."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from tilewright.architectures.device import H200
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic
from tilewright.formats.types import bits
from tilewright.selection.families import family_of

UNIT = 16  # elements of a contiguous dimension: TMA's 16 bytes of any type
SM_COUNT = H200.sm_count
_RESULT_BYTES = 16 * 2**20
_TILES = (3 * SM_COUNT + 24, 3000)  # of a result: more than three for each thread block; no more than this


class Case(NamedTuple):
    """One call of a kernel. `groups`: what the device reads of groups, instead of random numbers: their ends,
    counts of rows, or parts of k."""

    problem: Any
    tactic: Tactic
    groups: tuple[int, ...] = ()


Cases = Callable[[KernelRecord], Iterable[Case]]


def legal(family: str, record: KernelRecord, cases: Iterable[Case]) -> Iterator[Case]:
    """The cases that the family's rules allow the kernel."""
    rules = family_of(family)
    for case in cases:
        if rules.misfit_tactic(case.tactic, record, case.problem) is None:
            yield case


def result_tile(record: KernelRecord) -> tuple[int, int]:
    """Rows and columns of D that a tile computes."""
    m, n, _ = record.config["tile"]
    return (n, m) if record.config.get("swap_ab") else (m, n)


def tiles(rows: int, columns: int, type: str) -> int:
    """How many tiles a result has: many for a thread block, and not so many that memory takes long."""
    least, most = _TILES
    return max(least, min(_RESULT_BYTES * 8 // (rows * columns * bits(type)), most))


def partial(extent: int, unit: int = 1) -> int:
    """About half of a tile's extent: odd where the unit is 1, else a multiple of the unit."""
    half = extent // 2 + 1
    return half | 1 if unit == 1 else max(half // unit, 1) * unit


def strip(rows: int, columns: int, count: int, unit: int = 1) -> tuple[int, int]:
    """m and n of `count` tiles in two rows, of which the second is partial: whole and partial in turn."""
    return whole(rows, unit) + partial(rows, unit), count // 2 * columns + partial(columns, UNIT)


def square(rows: int, columns: int, count: int, unit: int = 1) -> tuple[int, int]:
    """m and n that are about the same, of `count` tiles; the last ones are partial."""
    down = max(2, round((count * columns / rows) ** 0.5))
    across = max(2, -(-count // down))
    return (down - 1) * whole(rows, unit) + partial(rows, unit), (across - 1) * columns + partial(
        columns, UNIT
    )


def whole(rows: int, unit: int) -> int:
    return -(-rows // unit) * unit
