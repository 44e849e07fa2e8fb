"""The specs that measure the generator are legal and of the size that they say."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright_generator import generation
from tilewright_generator.project import Project

ROOT = Path(__file__).parents[2]
SPECS = ROOT / "benchmarks" / "specs"
SCREEN = 40  # lines


@pytest.mark.parametrize("kernels", [2_000, 20_000])
def test_about_as_many_kernels_as_the_name_says(kernels: int) -> None:
    path = SPECS / f"sm90_gemm_{kernels}.yaml"
    (expansion,) = generation.read(Project.find(ROOT), [path])
    assert abs(len(expansion.kernels) - kernels) <= 0.05 * kernels
    assert len(path.read_text(encoding="utf-8").splitlines()) <= SCREEN


def test_their_output_is_not_committed() -> None:
    assert not list((ROOT / "generated").glob("sm90_gemm_2000*"))
