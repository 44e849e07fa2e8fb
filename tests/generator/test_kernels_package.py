"""examples/kernels_package: a wheel that brings kernels of its own, and what commands say of them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples/kernels_package"
TILE = "gemm_sm90_bf16_bf16_f32_bf16_tn_192x112x64_lean"
KERNEL = f"{TILE}_coop"  # tilewright ships the other one
PROBLEM = "gemm bf16 m=2304 n=1232 k=4096"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The project, generated, and `site`: what its wheel installs, as its pyproject.toml says."""
    tomllib: Any = pytest.importorskip("tomllib")  # Python 3.11
    place = tmp_path_factory.mktemp("place")
    shutil.copytree(EXAMPLE, place / "project", ignore=shutil.ignore_patterns("generated", "dist"))
    assert "5 to add" in run(place, "generate", folder=place / "project")
    text = (place / "project/pyproject.toml").read_text(encoding="utf-8")
    wheel = tomllib.loads(text)["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert {*wheel["only-include"]} == {*wheel["sources"]}
    for source, target in wheel["sources"].items():
        shutil.copytree(place / "project" / source, place / "site" / target)
    return place


def run(place: Path, words: str, *, folder: Path | None = None, code: int = 0, **variables: str) -> str:
    """What a command prints, where the wheel is installed."""
    search = os.pathsep.join(map(str, (place / "site", ROOT / "generator", ROOT / "runtime")))
    settings = {"PYTHONPATH": search, "TILEWRIGHT_CACHE": str(place / "cache"), "TILEWRIGHT_TUNED": ""}
    done = subprocess.run(
        [sys.executable, "-m", "tilewright_generator", *words.split()],
        cwd=folder or place,
        env=os.environ | settings | variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stderr
    return done.stdout if code == 0 else done.stderr


def test_its_commands(place: Path) -> None:
    blocks = (EXAMPLE / "README.md").read_text(encoding="utf-8").split("```sh\n")[1:]
    own, asked = (block.partition("```")[0].splitlines() for block in blocks)
    assert own[0] == "tilewright generate"
    for line in asked:
        assert f"{TILE}_" in run(place, line.removeprefix("tilewright "))


def test_a_problem_whose_kernel_is_of_the_package(place: Path) -> None:
    words = f"explain --problem {PROBLEM} --device h200 --json"
    answer = json.loads(run(place, words))
    assert (answer["tactic"].partition("_lean")[0], answer["set"]) == (TILE.removesuffix("_lean"), "acme")
    text = run(place, words.removesuffix(" --json"))
    assert f"would run {answer['tactic']}, which is not built, of the set acme." in text.replace("\n", " ")
    without = json.loads(run(place, words, TILEWRIGHT_GENERATED="shipped:only"))
    assert without["set"] == "shipped"
    assert KERNEL not in {candidate["tactic"].partition("@")[0] for candidate in without["candidates"]}


def test_a_project_before_the_shipped_kernels(place: Path) -> None:
    """Its own folder, not the installed copy of it; other families' kernels are there too."""
    words = f"explain --problem {PROBLEM} --device h200 --json"
    answer = json.loads(run(place, words, folder=place / "project"))
    assert answer["set"] == str(place / "project/generated")
    other = json.loads(run(place, "explain --problem quantize m=64 k=4096 --json", folder=place / "project"))
    assert other["set"] == "shipped"
    alone = run(
        place, "explain --problem quantize m=64 k=4096", folder=place / "project", code=2,
        TILEWRIGHT_GENERATED="only",
    )  # fmt: skip
    assert "there are kernels for: nothing" in alone


def test_a_list_of_a_set(place: Path) -> None:
    kernel, other = json.loads(run(place, "list --set acme --json"))
    assert (kernel["name"], kernel["set"], kernel["built"]) == (KERNEL, "acme", False)
    assert other["name"] == f"{TILE}_pingpong"
    assert run(place, "list --set acme").startswith(f"acme_gemm: 2 kernels\n  ----- {KERNEL}\n")
    assert run(place, "list --set acme --verified") == "no kernel is run on a GPU, by the committed records\n"
    assert run(place, "list --set acme --filter tile=192x*") == run(place, "list --set acme")
    assert "no kernel meets --filter tile=64x*" in run(place, "list --set acme --filter tile=64x*", code=2)
    shipped = run(place, "list --set shipped")
    assert "beside them: the set acme (tilewright list --set acme)" in shipped
    assert "did you mean 'acme'" in run(place, "list --set acne", code=2)
    assert "give one of them" in run(place, f"list --set acme --root {place / 'project'}", code=2)


def test_status_of_a_set(place: Path) -> None:
    assert json.loads(run(place, "status --set acme --json"))["set"] == "acme"
    assert "kernels of the set acme\n" in run(place, "status --set acme")
    assert "kernels of the set shipped\n" in run(place, "status")


def test_where_a_kernel_comes_from(place: Path) -> None:
    told = run(place, f"explain {KERNEL}")
    assert f"of the set acme: {place}/site/tilewright_kernels/acme/generated/acme_gemm/{KERNEL}.cu" in told
    assert "tile" in told
    assert "made by specs/acme_gemm.yaml:" in run(place, f"explain {KERNEL}", folder=place / "project")


def test_doctor_names_the_sets(place: Path) -> None:
    answer = json.loads(run(place, "doctor --json --device h200"))
    modules = [finding["text"] for finding in answer["findings"] if finding["area"] == "modules"]
    assert any(text.startswith("acme_gemm: 2 kernels") and text.endswith("the set acme") for text in modules)
    assert any(text.endswith("of the set shipped") for text in modules)
