"""How kernels of `mqa_logits` share queries and keys out among thread blocks, and the schedule of pages."""

from __future__ import annotations

from pathlib import Path

import pytest
from host_programs import ROOT, compiled, run

HERE = Path(__file__).parent
# What the headers take of PTX, which no host assembles.
PTX = "namespace tilewright::sm90 { void wait_for_previous_kernel(); void allow_next_kernel(); }\n"


@pytest.fixture(scope="module")
def program() -> Path:
    return compiled(
        "mqa_work",
        [HERE / "mqa_work.cc"],
        ["-std=c++17", "-O1", f"-I{HERE}", f"-I{ROOT / 'runtime/include'}"],
        files={"tilewright/sm90/ptx.hpp": f"#pragma once\n{PTX}"},
    )


@pytest.mark.parametrize("blocks", [1, 5, 33])
def test_every_query_meets_each_of_its_keys_in_pages_once(program: Path, blocks: int) -> None:
    done = run(program, "pages", blocks)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("case", ["schedules", "ranges"])
def test_every_query_meets_each_of_its_keys_once(program: Path, case: str) -> None:
    done = run(program, case)
    assert (done.returncode, done.stdout) == (0, "")


def test_pages_of_long_items_are_those_of_the_table(program: Path) -> None:
    """A warp holds 32 entries at a time: items of up to 200 pages reload them."""
    done = run(program, "table")
    assert (done.returncode, done.stdout) == (0, "")
