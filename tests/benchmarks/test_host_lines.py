"""benchmarks/host/host_lines.py counts every module of the runtime once, and says who imports it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tilewright.declarations import catalog

ROOT = Path(__file__).resolve().parents[2]

from benchmarks.host import host_lines  # noqa: E402 (a program beside the tests)


def lines_of(folder: Path, pattern: str) -> int:
    texts = [path.read_text(encoding="utf-8") for path in folder.glob(pattern)]
    heads = ["".join(text.splitlines(keepends=True)[:3]) for text in texts]
    return sum(text.count("\n") for text, head in zip(texts, heads, strict=True) if "DO NOT EDIT" not in head)


@pytest.fixture(scope="module")
def rows() -> dict[str, Counter[str]]:
    return host_lines.count()


def test_every_module_is_counted_once(rows: dict[str, Counter[str]]) -> None:
    for name in catalog.names():
        folder = ROOT / "runtime/tilewright/families" / name
        assert rows[f"family {name}"].total() == lines_of(folder, "*.py")
    assert rows["calls"].total() == lines_of(ROOT / "runtime/tilewright/calls", "**/*.py")
    of_runtime = sum(counts.total() for counts in rows.values())
    assert of_runtime == lines_of(ROOT / "runtime/tilewright", "**/*.py")
    assert of_runtime == host_lines.python(host_lines.RUNTIME)


def test_the_columns_say_who_imports_a_module(rows: dict[str, Counter[str]]) -> None:
    assert {*rows["tools"]} == {"tools"}
    assert {*rows["calls"]} == {"call", "tools"}  # what replaces ops without torch
    # The tools' are the list of releases (`tilewright toolchain`) and a program, cute_dsl/unit.py.
    assert {*rows["compile"]} == {"call", "build", "tools"}
    assert {*rows["compat"]} == {"DeepGEMM"}
    assert {*rows["family gemm"]} == {"call", "generator", "tools"}


def test_files_that_a_declaration_writes_do_not_count() -> None:
    assert host_lines.lines_of("int x;\nint y;\n") == 2
    assert host_lines.lines_of("// Written. DO NOT EDIT.\nint x;\n") == 0
    assert host_lines.cpp() > host_lines.cpp("f46e896d") - 200 > 0
