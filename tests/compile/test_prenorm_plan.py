"""How `hc_prenorm` shares its work out among thread blocks."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tilewright.ops.hc_prenorm.cost import shares
from tilewright.ops.hc_prenorm.problem import BLOCK_K, Problem

HERE = Path(__file__).parent
INCLUDE = HERE.parents[1] / "runtime/include"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("c++") or shutil.which("g++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    made = tmp_path_factory.mktemp("plan") / "prenorm_plan"
    command = [compiler, "-std=c++17", "-O2", "-Wall", "-Werror", f"-I{INCLUDE}"]
    subprocess.run([*command, str(HERE / "prenorm_plan.cc"), "-o", str(made)], check=True)
    return made


def test_every_block_is_computed_once_and_added_up(program: Path) -> None:
    found = subprocess.run([program], check=False, capture_output=True, text=True)
    assert (found.returncode, found.stdout) == (0, "")


@pytest.mark.parametrize(
    "extents",
    [(32, 448, 1), (32, 448, 16), (64, 112, 1), (1, 112, 1), (2, 120, 16), (47, 120, 5), (132, 9, 1)],
)
def test_the_cost_model_knows_the_shares(program: Path, extents: tuple[int, int, int]) -> None:
    rows, blocks, splits = extents
    words = map(str, (rows, blocks, splits, 132))
    found = subprocess.run([program, *words], check=True, capture_output=True, text=True).stdout.split()
    model = shares(128, Problem(rows * 128, 24, blocks * BLOCK_K, splits), 132)
    assert [model.ctas, int(model.cut)] == list(map(int, found))
