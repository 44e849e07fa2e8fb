"""docs/adding_a_family.md makes a family from nothing: its files are written and used as the page says."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tilewright.base import plugins
from tilewright.compile.toolchain import find_toolchain
from tilewright.errors import ToolchainError

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/adding_a_family.md").read_text(encoding="utf-8")
FILES = dict(re.findall(r'^```\w+ title="([^"]+)"\n(.*?)^```$', PAGE, re.MULTILINE | re.DOTALL))
FAMILY = "tilewright_families/row_scale"


class Place:
    """The page's files in a folder that is on sys.path, and is the project."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for name, text in FILES.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        self.run("-m", "tilewright.declarations.headers")

    def run(self, *command: str, code: int = 0, folder: Path | None = None) -> str:
        """`python COMMAND` in the project."""
        paths = [
            self.root,
            ROOT / "generator",
            ROOT / "runtime",
            ROOT / "tests/common",
            ROOT / "tests/runtime",
        ]
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(map(str, paths)),
            "TILEWRIGHT_CACHE": str(self.root / "cache"),
            "TILEWRIGHT_TUNED": "",
        }
        done = subprocess.run(
            [sys.executable, *command], cwd=folder or self.root, env=environment, check=False,
            capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout

    def tilewright(self, *arguments: str, code: int = 0) -> str:
        return self.run("-m", "tilewright_generator", *arguments, code=code)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    place = Place(tmp_path_factory.mktemp("adding"))
    place.tilewright("generate")
    return place


def test_the_page_has_all_modules_of_a_family() -> None:
    modules = {"problem", "vocabulary", "interface", "family", "op"}
    assert {f"{FAMILY}/{name}.py" for name in (*modules, "__init__", "kernel")} <= set(FILES)


def test_it_is_found_by_its_folder(place: Place) -> None:
    code = "from tilewright.declarations import catalog; print(*catalog.names())"
    assert "row_scale" in place.run("-c", code).split()
    assert "row_scale" not in plugins.families()


def test_its_header_follows_from_the_declaration(place: Place) -> None:
    header = place.root / FAMILY / "include/tilewright/row_scale/args.h"
    assert "int64_t ld_x, ld_out;" in header.read_text(encoding="utf-8")
    place.run("-m", "tilewright.declarations.headers", "--check")
    header.write_text(header.read_text(encoding="utf-8") + "\n", encoding="utf-8")
    place.run("-m", "tilewright.declarations.headers", "--check", code=1)
    place.run("-m", "tilewright.declarations.headers")


def test_it_is_generated_checked_and_listed(place: Place) -> None:
    names = [f"row_scale_sm90_{type}{threads}" for type in ("bf16", "f16") for threads in ("", "_128threads")]
    table = json.loads((place.root / "generated/row_scale/table.json").read_text(encoding="utf-8"))
    assert {row["name"] for row in table["kernels"]} == set(names)
    place.tilewright("check")
    listed = place.tilewright("list")
    assert all(name in listed for name in names)
    spec = place.root / "specs/row_scale.yaml"
    text = spec.read_text(encoding="utf-8")
    try:
        spec.write_text(text.replace("[128, 256]", "32"), encoding="utf-8")
        place.tilewright("check", code=2)  # a rule rejects it
    finally:
        spec.write_text(text, encoding="utf-8")


def test_commands_know_its_words(place: Place) -> None:
    words = ("row_scale", "f16", "m=64", "n=256")
    told = place.tilewright("explain", "--problem", *words, "--device", "h200")
    assert "row_scale 64x256 f16" in told
    assert "row_scale_sm90_f16" in told
    assert "--dtype" in place.tilewright("run", "row_scale", "--help")


def test_nvcc_compiles_it(place: Place) -> None:
    try:
        find_toolchain()
    except ToolchainError as error:
        pytest.skip(f"no toolchain: {error}")
    report = place.root / "report.json"
    place.tilewright("build", "--strict", "--report", str(report))
    units = json.loads(report.read_text(encoding="utf-8"))["kernels"]
    assert len(units) == 4
    code = "from tilewright.compile.library import libraries; print(len(libraries('row_scale')[0].kernels))"
    assert place.run("-c", code).strip() == "4"


def test_it_passes_the_contract_tests(place: Place) -> None:
    pytest.importorskip("torch")
    told = place.run(
        "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/test_row_scale.py",
    )  # fmt: skip
    passed = re.search(r"(\d+) passed", told)
    assert passed
    assert int(passed[1]) > 40, told
