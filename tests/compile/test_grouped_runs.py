"""Which rows each group has, and which are zeroed, in the first kernel of grouped products on tcgen05."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from host_programs import ROOT, compiled, run

from tilewright import scale_factors

HERE = Path(__file__).parent
ATOM_ROWS = 128


@pytest.fixture(scope="module")
def program() -> Path:
    flags = ["-std=c++17", "-O1", f"-I{ROOT / 'runtime/include'}"]
    return compiled("grouped_runs", [HERE / "grouped_runs.cc"], flags)


def runs(
    program: Path, grouping: str, m: int, numbers: list[int], *, alignment: int = 128, zero: bool = False
) -> list[tuple[int, ...]]:
    done = run(program, grouping, m, alignment, int(zero), *numbers)
    assert done.returncode == 0
    return [tuple(map(int, line.split())) for line in done.stdout.splitlines()[:-2]]


def padding_of(end: int, stop: int, zero: bool) -> set[int]:
    """Rows that are zeroed from `end` on, before `stop`: all, or those of the last 128 that hold a row."""
    return set(range(end, stop if zero else min(stop, -(-end // ATOM_ROWS) * ATOM_ROWS)))


@pytest.mark.parametrize("zero", [False, True])
@pytest.mark.parametrize("alignment", [128, 256])
def test_groups_by_their_ends(program: Path, alignment: int, zero: bool) -> None:
    """Rows of groups that begin at multiples, some of them empty; more rows of D than groups have."""
    source = random.Random(alignment)
    for _ in range(20):
        sizes = [source.choice((0, 1, 127, 128, 129, source.randrange(600))) for _ in range(7)]
        begins, ends, begin = [], [], 0
        for size in sizes:
            begins.append(begin)
            ends.append(begin + size)
            begin = -(-(begin + size) // alignment) * alignment
        m = begin + source.choice((0, 100, 512))
        stops = [*begins[1:], m]
        actual = runs(program, "ends", m, ends, alignment=alignment, zero=zero)
        assert len(actual) == len(sizes)
        for group, (matrix, first, rows, of, zero_first, zero_end) in enumerate(actual):
            assert (matrix, rows, of) == (0, sizes[group], group)
            assert first == begins[group] or not rows
            assert first % ATOM_ROWS == 0 or not rows
            expected = padding_of(ends[group], stops[group], zero)
            assert set(range(zero_first, zero_end)) == expected


@pytest.mark.parametrize("zero", [False, True])
def test_groups_by_their_rows(program: Path, zero: bool) -> None:
    """Each group has m rows of its own; a number beyond them, or below 0, is cut off."""
    m, valid = 300, [0, 1, 128, 129, 300, 1000, -5]
    for group, actual in enumerate(runs(program, "rows_valid", m, valid, zero=zero)):
        rows = min(max(valid[group], 0), m)
        assert actual[:4] == (group, 0, rows, group)
        assert set(range(*actual[4:])) == padding_of(rows, m, zero)


def test_ends_beyond_the_rows_are_cut_off(program: Path) -> None:
    assert runs(program, "ends", 200, [100, 400, 500])[1][:3] == (0, 128, 72)
    assert all(row[2] == 0 for row in runs(program, "ends", 200, [100, 400, 500])[2:])


def test_factors_lie_in_atoms_as_the_128x4_layout_says(program: Path) -> None:
    done = run(program, "ends", 1, 128, 0, 1)
    *places, size = map(int, done.stdout.splitlines()[-2].split())
    assert places == [row % 32 * 16 + row // 32 * 4 for row in range(ATOM_ROWS)]
    assert size == scale_factors.size(300, 200, 32)


def test_words_become_the_factors_of_atoms(program: Path) -> None:
    """18 factors of 32 of k; words have factors 1, 2, 3 and so on, of 32 or of 128 of k."""
    done = run(program, "ends", 1, 128, 0, 1)
    atoms = [int(atom).to_bytes(4, "little") for atom in done.stdout.splitlines()[-1].split()]
    assert b"".join(atoms[:5]) == bytes([*range(1, 19), 0, 0])
    assert b"".join(atoms[5:]) == bytes([*(1 + column // 4 for column in range(18)), 0, 0])
