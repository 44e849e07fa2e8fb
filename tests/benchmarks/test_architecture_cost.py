"""What an architecture costs is counted by what its kernels are made of."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.host import architecture_cost
from benchmarks.host.architecture_cost import INCLUDE, ROOT, Cost, lines, reached

from tilewright_generator.project import Project


@pytest.fixture(scope="module")
def found() -> dict[str, Cost]:
    return architecture_cost.costs(Project.find(ROOT))


def test_every_kernel_counts_once(found: dict[str, Cost]) -> None:
    tables = (ROOT / "generated").glob("*/table.json")
    rows = sum(table.read_text(encoding="utf-8").count('{"name": ') for table in tables)
    assert sum(cost.kernels for cost in found.values()) == rows
    assert set(found) == {"sm_90", "sm_100", "sm_103", "sm_107", "sm_110", "sm_12x"}


def test_headers_are_found_through_others_and_programs(found: dict[str, Cost]) -> None:
    assert INCLUDE / "tilewright/grouped_gemm/runs.hpp" in found["sm_100"].headers  # by tcgen05_groups.hpp
    assert INCLUDE / "tilewright/gemm/tcgen05_tiles.py" in found["sm_110"].headers  # by a program
    assert INCLUDE / "tilewright/grouped_gemm/runs.hpp" not in found["sm_90"].headers


def test_comments_and_empty_lines_do_not_count(tmp_path: Path) -> None:
    source = tmp_path / "some.hpp"
    source.write_text('// A comment.\n\n#include "tilewright/tactic.h"\nint x;  // one\n', encoding="utf-8")
    assert lines(source) == 2
    assert reached(source) == {INCLUDE / "tilewright/tactic.h"}
