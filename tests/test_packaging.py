"""What an installed wheel holds is all that the commands and ops look for there."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
FEW = "scale_columns"  # eight kernels: a small project
KERNEL = "gemm_sm90_bf16_bf16_f32_bf16_tn_128x128x64_lean_coop"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """site-packages, as pyproject.toml says what a wheel takes and where it goes."""
    tomllib: Any = pytest.importorskip("tomllib")  # Python 3.11
    targets = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]
    sources, files = targets["wheel"]["sources"], targets["wheel"]["force-include"]
    assert {*targets["wheel"]["only-include"]} == {*sources}
    site = tmp_path_factory.mktemp("site")
    for source, target in sources.items():
        shutil.copytree(ROOT / source, site / target, ignore=shutil.ignore_patterns("__pycache__", "*.lock"))
    for source, target in files.items():
        shutil.copy(ROOT / source, site / target)
    return site


def test_the_report_of_a_wheel_has_the_speeds_of_the_clone(installed: Path, tmp_path: Path) -> None:
    run(installed, "report -o report.svg", tmp_path)
    committed = (ROOT / "docs/images/speed.svg").read_text(encoding="utf-8")
    assert (tmp_path / "report.svg").read_text(encoding="utf-8") == committed


def run(site: Path, words: str, place: Path, **environment: str) -> str:
    """What a command prints that succeeds from these site-packages in a folder that is no project."""
    done = finished(site, words, place, **environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def finished(site: Path, words: str, place: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """A command's output and exit code."""
    return subprocess.run(
        [sys.executable, "-m", "tilewright_generator", *words.split()],
        cwd=place,
        env=os.environ | {"PYTHONPATH": str(site), "TILEWRIGHT_CACHE": str(place / "cache")} | environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("list", f"--crh {KERNEL}"),  # specs, tables, records
        (f"explain {KERNEL}", "made by specs/sm90_gemm_lean.yaml:"),
        ("explain --problem gemm bf16 m=32 n=5120 k=25600", "Why (tuned)"),  # tuned files
        ("explain --problem gemm bf16 m=777 n=1234 k=4096", "Why (model)"),  # learnt weights
        ("generate --root PROJECT", "nothing to do: 8 kernels"),  # templates
        ("build --root PROJECT --dry-run", "8 to compile"),  # headers
        ("report --root PROJECT -o PROJECT/r.html", "wrote"),  # the page's template
        ("init PROJECT/new --spec sm90_gemm_stream", "wrote PROJECT/new/.gitattributes"),
        ("config --cmake", "-Dtilewright_DIR=SITE/tilewright/_data/cmake "),  # find_package
        ("config --includes", "-ISITE/tilewright/_data/include"),
        ("new-family relu_rows --into PROJECT", "wrote 23 files"),  # templates of a family
    ],
)
def test_commands_of_an_installed_wheel(installed: Path, words: str, expected: str, tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / "specs").mkdir(parents=True)
    shutil.copy(ROOT / "specs" / f"{FEW}.yaml", project / "specs")
    shutil.copytree(ROOT / "generated" / FEW, project / "generated" / FEW)
    out = run(installed, words.replace("PROJECT", str(project)), tmp_path)
    assert expected.replace("PROJECT", str(project)).replace("SITE", str(installed)) in out


@pytest.mark.parametrize("words", ["status --json", "status --check --release", "list --verified --json"])
def test_a_wheel_says_of_kernels_what_the_clone_says(installed: Path, words: str, tmp_path: Path) -> None:
    here = f"{ROOT}/generator:{ROOT}/runtime"
    of_clone = finished(Path(here), f"{words} --root {ROOT}", tmp_path, PYTHONPATH=here)
    of_wheel = finished(installed, words, tmp_path)
    assert (of_wheel.returncode, of_wheel.stdout) == (of_clone.returncode, of_clone.stdout)
    assert of_clone.stdout
    assert not of_clone.stderr


def test_a_wheel_has_the_same_bytes_wherever_it_is_built(tmp_path: Path) -> None:
    pytest.importorskip("hatchling")
    digests = set()
    for place, seed in (("one", "1"), ("another/place", "2")):
        root = tmp_path / place
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
        for name in filter(None, listed.decode().split("\0")):
            if not name.startswith(("benchmarks/", "tests/", "docs/")) or name.startswith(
                "benchmarks/results/"
            ):
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, root / name)
        build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / "out")]
        subprocess.run(
            build, cwd=root, env=os.environ | {"PYTHONHASHSEED": seed}, check=True, capture_output=True
        )
        (wheel,) = (tmp_path / "out").iterdir()
        assert wheel.name.endswith("-py3-none-any.whl")
        digests.add(hashlib.sha256(wheel.read_bytes()).hexdigest())
    assert len(digests) == 1


def test_make_run_with_a_python_that_is_too_old(tmp_path: Path) -> None:
    """Nothing is set up, which a later `make run` with another Python would take for its own."""
    if shutil.which("make") is None:
        pytest.skip("make is not installed")
    shutil.copy(ROOT / "Makefile", tmp_path)
    old = tmp_path / "python3.9"
    version = "import sys; sys.version_info = (3, 9, 18, 'final', 0);"
    old.write_text(f'#!/bin/sh\n[ "$1" = -c ] && exec {sys.executable} -c "{version} $2"\nmkdir .venv\n')
    old.chmod(0o755)
    done = subprocess.run(
        ["make", "run", f"PYTHON={old}"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    expected = f"{old} is Python 3.9; Tilewright needs Python 3.10 or later (make PYTHON=...)"
    assert done.stderr.splitlines()[0] == expected
    assert not (tmp_path / ".venv").exists()


def test_a_venv_that_could_not_be_made_is_not_left_behind(tmp_path: Path) -> None:
    if shutil.which("make") is None:
        pytest.skip("make is not installed")
    shutil.copy(ROOT / "Makefile", tmp_path)
    broken = tmp_path / "python3"
    half = "mkdir -p .venv/bin; touch .venv/bin/python; exit 1"
    broken.write_text(f'#!/bin/sh\n[ "$1" = -c ] && exit 0\n{half}\n')
    broken.chmod(0o755)
    done = subprocess.run(
        ["make", "run", f"PYTHON={broken}"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    assert not (tmp_path / ".venv").exists()
