"""How `hc_prenorm` shares its work out among thread blocks."""

from __future__ import annotations

from pathlib import Path

import pytest
from host_programs import ROOT, compiled, run

from tilewright.families.hc_prenorm.cost import shares
from tilewright.families.hc_prenorm.problem import BLOCK_K, Problem

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def program() -> Path:
    options = ["-std=c++17", "-O2", "-Wall", "-Werror", f"-I{ROOT / 'runtime/include'}"]
    return compiled("prenorm_plan", [HERE / "prenorm_plan.cc"], options)


def test_every_block_is_computed_once_and_added_up(program: Path) -> None:
    done = run(program)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize(
    "extents",
    [(32, 448, 1), (32, 448, 16), (64, 112, 1), (1, 112, 1), (2, 120, 16), (47, 120, 5), (132, 9, 1)],
)
def test_the_cost_model_knows_the_shares(program: Path, extents: tuple[int, int, int]) -> None:
    rows, blocks, splits = extents
    actual = run(program, rows, blocks, splits, 132).stdout.split()
    model = shares(128, Problem(rows * 128, 24, blocks * BLOCK_K, splits), 132)
    assert [model.ctas, int(model.cut)] == list(map(int, actual))
