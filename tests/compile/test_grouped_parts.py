"""Which part of k each group has, and where its scale factors lie, in the first kernel of products of groups
along k on tcgen05."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from host_programs import ROOT, compiled, run

from tilewright import scale_factors

HERE = Path(__file__).parent
UNIT, ATOM_BYTES = 128, 512


@pytest.fixture(scope="module")
def program() -> Path:
    flags = ["-std=c++17", "-O1", f"-I{ROOT / 'runtime/include'}"]
    return compiled("grouped_parts", [HERE / "grouped_parts.cc"], flags)


def lines(program: Path, rows: int, k: int, sizes: list[int]) -> dict[str, list[tuple[int, ...]]]:
    done = run(program, rows, k, *sizes)
    assert done.returncode == 0
    kinds: dict[str, list[tuple[int, ...]]] = {"part": [], "atom": []}
    for line in done.stdout.splitlines():
        kind, *numbers = line.split()
        kinds[kind].append(tuple(map(int, numbers)))
    return kinds


@pytest.mark.parametrize("rows", [1, 128, 300])
def test_each_group_has_a_matrix_of_factors_in_the_128x4_layout(program: Path, rows: int) -> None:
    """Groups without k among others. Atoms of a tile of rows follow each other, then those of the next."""
    source = random.Random(rows)
    for _ in range(10):
        sizes = [UNIT * source.choice((0, 0, 1, 2, source.randrange(9))) for _ in range(6)]
        k = sum(sizes) or UNIT
        actual = lines(program, rows, k, sizes)
        begin, at, expected = 0, 0, []
        for size, part in zip(sizes, actual["part"], strict=True):
            units = size // UNIT
            assert part == (begin, units, at)
            assert units == 0 or scale_factors.size(rows, size, 32) == -(-rows // 128) * units * ATOM_BYTES
            for tile in range(-(-rows // 128)):
                expected += [(tile, begin + i, at + (tile * units + i) * ATOM_BYTES) for i in range(units)]
            begin, at = begin + units, at + -(-rows // 128) * units * ATOM_BYTES
        assert actual["atom"] == expected


def test_sizes_beyond_k_and_below_a_multiple_are_cut_off(program: Path) -> None:
    parts = lines(program, 128, 5 * UNIT, [2 * UNIT + 100, -7, 10 * UNIT, UNIT])["part"]
    assert [part[:2] for part in parts] == [(0, 2), (2, 0), (2, 3), (5, 0)]
