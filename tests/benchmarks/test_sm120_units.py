"""What the record of sm_12x's units says, and how it is made."""

from __future__ import annotations

from benchmarks.host import sm120_units
from benchmarks.lib.machine import RESULTS


def cells(heading: str) -> list[list[str]]:
    """The rows of the record's table whose head begins with a word."""
    lines = (RESULTS / "sm120_units.md").read_text(encoding="utf-8").splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(f"| {heading} |"))
    rows = lines[start + 2 : lines.index("", start)]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]


def test_units_take_at_most_five_seconds_and_spill_nothing() -> None:
    modules = cells("module")
    assert [row[0] for row in modules] == list(sm120_units.MODULES)
    assert sum(int(row[1]) for row in modules) >= 110
    assert all(int(row[3]) == 0 for row in modules)
    assert max(float(row[8]) for row in modules) <= sm120_units.MOST_SECONDS


def test_a_unit_of_the_same_tile_stands_beside_ours() -> None:
    beside = cells("kernel")
    assert [row[0] for row in beside] == [ours for ours, _ in sm120_units.pairs()]
    assert all(float(row[3]) > 10 * float(row[1]) for row in beside)


def test_lines_of_host_code_are_counted() -> None:
    """Whole files of theirs, and lines of files that other kernels have, too; none of other chips."""
    counted = {name: (count, of) for name, count, of in sm120_units.host_lines()}
    assert counted["families/gemm/cost_mma.py"][1] == "whole"
    assert counted["families/gemm/rules.py"][1] == "lines"
    assert not [name for name in counted if "tcgen05" in name or "mixed_" in name]
    assert "families/gemm/cost_lean.py" not in counted
