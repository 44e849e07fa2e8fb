"""docs/deep_gemm.md names every function of `tilewright.compat.deep_gemm`, and none that is not there."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from itertools import product
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed")
from tilewright.compat import deep_gemm

PAGE = (Path(__file__).resolve().parents[2] / "docs/deep_gemm.md").read_text(encoding="utf-8")
BESIDE = {"forget_scales", "install", "set_keep_scales"}  # what DeepGEMM does not have


def table() -> list[str]:
    rows = PAGE.partition("| DeepGEMM's | here |\n|---|---|\n")[2].partition("\n\n")[0]
    return [line.split("|")[1] for line in rows.splitlines()]


def spelt(pattern: str) -> list[str]:
    """The names that a pattern with braces stands for: `fp8_gemm_{nt,nn}`."""
    parts = [part.split(",") for part in re.split(r"[{}]", pattern)]
    return ["".join(choice) for choice in product(*parts)]


def named() -> set[str]:
    """Functions of the table; `fp8_fp4_gemm_*` and names within modules (`utils.x`) as they stand."""
    cells = [name for cell in table() for name in re.findall(r"`([^`]+)`", cell)]
    return {name for cell in cells for name in spelt(cell) if re.fullmatch(r"[\w.*]+", name)}


def public() -> set[str]:
    """The functions of the package; those of its utils and settings have rows in words."""
    functions = {name for name in vars(deep_gemm) if callable(getattr(deep_gemm, name))}
    helpers = {name for name in functions if hasattr(deep_gemm.utils, name)}
    aliases = {name for name in functions if name.endswith("alignment_for_contiguous_layout")}
    return {name for name in functions if not name.startswith("_")} - helpers - aliases - BESIDE


def test_functions_that_are_named_are_there() -> None:
    plain = {name for name in named() if re.fullmatch(r"\w+", name)}
    assert len(plain) > 40
    modules = {name for name in plain if not callable(getattr(deep_gemm, name, None))}
    # Functions of utils that its row lists without the module's name, and what does not run on Hopper.
    assert not {name for name in modules if not hasattr(deep_gemm.utils, name)} - {"utils", "mega"}


def test_every_function_is_named() -> None:
    patterns = named()
    missing = {name for name in public() if not any(fnmatchcase(name, pattern) for pattern in patterns)}
    assert len(public()) > 40
    assert not missing
