"""What an installed wheel holds is all that the commands and ops look for there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
FEW = "scale_columns"  # three kernels: a small project
KERNEL = "gemm_sm90_bf16_bf16_f32_bf16_tn_128x128x64_lean_coop"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """site-packages, as pyproject.toml says what a wheel takes and where it goes."""
    tomllib: Any = pytest.importorskip("tomllib")  # Python 3.11
    targets = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]
    sources = targets["wheel"]["sources"]
    assert set(targets["wheel"]["only-include"]) == set(sources)
    site = tmp_path_factory.mktemp("site")
    for source, target in sources.items():
        shutil.copytree(ROOT / source, site / target, ignore=shutil.ignore_patterns("__pycache__", "*.lock"))
    return site


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("list", f"---- {KERNEL}"),  # specs, tables
        (f"explain {KERNEL}", "made by specs/sm90_gemm_lean.yaml:"),
        ("explain --problem gemm bf16 m=32 n=5120 k=25600", "Why (tuned)"),  # tuned files
        ("generate --root PROJECT", "nothing to do: 3 kernels"),  # templates
        ("build --root PROJECT --dry-run", "3 to compile"),  # headers
    ],
)
def test_commands_of_an_installed_wheel(installed: Path, words: str, said: str, tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / "specs").mkdir(parents=True)
    shutil.copy(ROOT / "specs" / f"{FEW}.yaml", project / "specs")
    shutil.copytree(ROOT / "generated" / FEW, project / "generated" / FEW)
    done = subprocess.run(
        [sys.executable, "-m", "tilewright_generator", *words.replace("PROJECT", str(project)).split()],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(installed), "TILEWRIGHT_CACHE": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert said in done.stdout, done.stdout
