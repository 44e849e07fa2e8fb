"""benchmarks/host/host_lines.py counts every package of the runtime, every family, and the generator."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright.declarations import catalog

ROOT = Path(__file__).resolve().parents[2]

from benchmarks.host import host_lines  # noqa: E402 (a program beside the tests)


def lines_of(folder: Path, pattern: str) -> int:
    texts = [path.read_text(encoding="utf-8") for path in folder.glob(pattern)]
    heads = ["".join(text.splitlines(keepends=True)[:3]) for text in texts]
    return sum(text.count("\n") for text, head in zip(texts, heads, strict=True) if "DO NOT EDIT" not in head)


def test_every_file_is_counted_once() -> None:
    lines = host_lines.count()
    families = {f"family {name}" for name in catalog.names()}
    assert families <= set(lines)
    for name in catalog.names():
        counts = lines[f"family {name}"]
        folder = ROOT / "runtime/tilewright/families" / name
        assert counts["python"] + counts["cost"] == lines_of(folder, "*.py")
    of_runtime = host_lines.runtime(lines) + host_lines.tools(lines)
    assert of_runtime["python"] + of_runtime["cost"] == lines_of(ROOT / "runtime/tilewright", "**/*.py")
    assert lines["generator"]["python"] == lines_of(ROOT / "generator/tilewright_generator", "**/*.py")


def test_files_that_a_declaration_writes_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {
        "runtime/include/tilewright/gemm/binding.hpp": "int x;\nint y;\n",
        "runtime/tilewright/families/gemm/cost_lean.py": "X = 1\n",
        "runtime/tilewright/families/gemm/written.py": "# Written. DO NOT EDIT.\nX = 1\n",
        "runtime/tilewright/calls/protocol.py": "Y = 2\n",
        "runtime/tilewright/errors.py": "Z = 3\n",
    }
    monkeypatch.setattr(host_lines, "files", lambda revision: iter(texts.items()))
    assert host_lines.count() == {
        "family gemm": {"cpp": 2, "cost": 1, "python": 0},
        "calls": {"python": 1},
        "facade": {"python": 1},
    }
