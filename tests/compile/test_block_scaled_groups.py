"""Where groups of rows and their scale factors lie: the first kernel of block-scaled products of groups."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from host_programs import ROOT, compiled, run

from tilewright import scale_factors

HERE = Path(__file__).parent
ROWS_VALID = 3  # in grouped_gemm's struct


@pytest.fixture(scope="module")
def program() -> Path:
    flags = ["-std=c++17", "-O1", f"-I{ROOT / 'runtime/include'}"]
    return compiled("block_scaled_groups", [HERE / "block_scaled_groups.cc"], flags)


def lines(program: Path, *numbers: int) -> list[tuple[int, ...]]:
    done = run(program, *numbers)
    assert done.returncode == 0
    return [tuple(map(int, line.split())) for line in done.stdout.splitlines()]


@pytest.mark.parametrize(("block", "k"), [(16, 160), (32, 288), (16, 4096)])
def test_factors_begin_with_the_first_row_of_a_group(program: Path, block: int, k: int) -> None:
    """Groups begin at multiples of 128 rows."""
    ends = [100, 300, 300, 700]
    for begin, _, _, _, offset in lines(program, 800, k, block, 128, 0, len(ends), *ends)[:-1]:
        assert offset == scale_factors.index(begin, 0, k, block)


@pytest.mark.parametrize("alignment", [1, 8])
def test_groups_that_follow_each_other_closely(program: Path, alignment: int) -> None:
    """Padding between groups, and behind the last, is zeroed, and no row of another group is."""
    source = random.Random(alignment)
    for _ in range(20):
        sizes = [source.choice((0, 1, 127, 128, source.randrange(300))) for _ in range(6)]
        scales = [128 * source.randrange(20) for _ in sizes]
        begins, ends, begin = [], [], 0
        for size in sizes:
            begins.append(begin)
            ends.append(begin + size)
            begin = -(-ends[-1] // alignment) * alignment
        m = begin + source.choice((0, 3, 200))
        rows = lines(program, m, 96, 16, alignment, 0, len(sizes), *ends, *scales)[:-1]
        padding: set[int] = set()
        for group, (first, count, zero_first, zero_end, offset) in enumerate(rows):
            assert count == sizes[group]
            assert first == begins[group] or not count
            assert offset == scale_factors.index(scales[group], 0, 96, 16)
            padding |= set(range(zero_first, zero_end))
        own = {row for group in range(6) for row in range(begins[group], ends[group])}
        assert padding == set(range(m)) - own


def test_groups_with_rows_of_their_own(program: Path) -> None:
    """The third matrix of 200 rows has its factors behind those of two. Other padding is left as it is."""
    possible, zero, alignment, offset, grouping = lines(program, 200, 96, 16, 8, 1, 1, 200)[-1]
    assert (possible, zero, alignment, grouping) == (1, 0, 128, ROWS_VALID)
    assert offset == 2 * scale_factors.size(200, 96, 16)


def test_only_ends_have_factors_elsewhere(program: Path) -> None:
    assert lines(program, 200, 96, 16, 8, 0, 1, 200, 0)[-1][0] == 0
