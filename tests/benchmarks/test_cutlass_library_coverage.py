"""The page of cutlass_library's problem types agrees with the installed wheel, and overstates nothing here.

A new type of kernel here makes the page say less than it might, which is no fault; `--write` renews it.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from benchmarks.compare import cutlass_library_coverage as coverage
from benchmarks.compare.cutlass_library_coverage import ProblemType, Row

from tilewright.declarations.table import Table, read_tables

pytest.importorskip("cutlass_library")
PAGE = coverage.PAGE.read_text(encoding="utf-8")
DOCS = (coverage.ROOT / "docs/from_cutlass_library.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def lists() -> coverage.Library:
    return coverage.library()


@pytest.fixture(scope="module")
def tables() -> list[Table]:
    return list(read_tables(coverage.ROOT / "generated"))


def section(title: str) -> list[list[str]]:
    """The rows of the page's table below a heading, as cells."""
    (text,) = re.findall(rf"^## {title}\n\n.*\n\|---.*\n((?:\|.*\n)+)", PAGE, re.MULTILINE)
    return [line.strip("| ").split(" | ") for line in text.splitlines()]


def test_the_page_lists_what_cutlass_library_does(lists: coverage.Library) -> None:
    assert {*lists.kernels} == {*coverage.ARCHITECTURES}
    assert f"`cutlass_library` {lists.release} " in PAGE
    for architecture, kernels in lists.kernels.items():
        stated = [cells[:-1] for cells in section(f"SM{architecture}")]
        assert stated == [coverage.cells(row) for row in coverage.rows(kernels)], coverage.COMMAND
        left = sum(counts[architecture] for counts in lists.left_out.values())
        head = f"| SM{architecture} | {sum(kernels.values()) + left:,} | {left:,} | {len(kernels):,} |"
        assert head in PAGE, coverage.COMMAND


def test_each_kernel_of_the_lists_is_in_one_row(lists: coverage.Library) -> None:
    for kernels in lists.kernels.values():
        rows = coverage.rows(kernels)
        assert sum(row.kernels for row in rows) == sum(kernels.values())
        assert sum(len(row.types) for row in rows) == len(kernels)
        assert frozenset[ProblemType]().union(*(row.types for row in rows)) == kernels.keys()


def test_the_page_claims_no_kernel_that_is_missing(lists: coverage.Library, tables: list[Table]) -> None:
    claims = 0
    for architecture, kernels in lists.kernels.items():
        ours = coverage.kernels_here(tables, architecture)
        stated: set[ProblemType] = set()
        for row, cells in zip(coverage.rows(kernels), section(f"SM{architecture}"), strict=True):
            claimed = coverage.stated(row, cells[-1])
            assert claimed <= row.types & ours, f"SM{architecture}: {cells}; mend with: {coverage.COMMAND}"
            stated |= claimed
        assert f"| {len(kernels):,} | {len(stated):,} |" in PAGE
        claims += len(stated)
    assert claims > 60


def test_a_cell_says_what_is_here_and_is_read_back() -> None:
    row = Row(
        "block-scaled", "f32", ("nt", "tn"), ("bf16", "f32"), (("mxfp4", "mxfp8"), ("nvfp4", "nvfp4")), 8
    )
    first, second, *_ = sorted(row.types)
    other = first._replace(d="f16")
    for ours in (set(), {first}, {first, second, other}, row.types | {other}):
        text = coverage.here(row, frozenset(ours))
        assert coverage.stated(row, text) == row.types & ours
    assert coverage.here(row, frozenset({first, second})) == "mxfp4 x mxfp8 nt: bf16, f32"


def test_a_column_major_d_is_a_row_major_one_of_exchanged_operands(lists: coverage.Library) -> None:
    # SM90's list has FP8 with k contiguous and D column-major alone (tnn): exchanged, k is contiguous again.
    fp8 = {kind for kind in lists.kernels[90] if kind.kind == "dense" and kind.a.startswith("e")}
    assert {kind.layout for kind in fp8} == {"tn"}
    # Weights of 4 bits are the A of such kernels, and thus the B of a row-major D.
    mixed = {(kind.a, kind.b) for kind in lists.kernels[90] if kind.kind == "mixed"}
    assert ("bf16", "s4") in mixed
    assert ("s4", "bf16") not in mixed


def test_the_docs_say_what_is_left_out(lists: coverage.Library) -> None:
    assert f"../{coverage.PAGE.relative_to(coverage.ROOT)}" in DOCS
    for words in ("SM50 to SM89", "convolutions", "sparse", "complex", "rank-k", "SYMM", "TRMM", "F64"):
        assert words in DOCS, words
    assert Path(coverage.__file__).name in DOCS
    assert all(counts.total() for counts in lists.left_out.values())
