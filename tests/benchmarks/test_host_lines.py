"""benchmarks/host_lines.py counts what is a family's, and what is the core's."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tilewright import ops

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "benchmarks"))

import host_lines  # noqa: E402 (a program beside the tests)


def test_every_family_is_counted() -> None:
    found = host_lines.count()
    assert {*ops.names(), "contractions", "core"} == set(found)
    for name in ops.names():
        files = sorted((ROOT / "runtime/tilewright/ops" / name).glob("*.py"))
        texts = [path.read_text(encoding="utf-8") for path in files]
        lines = sum(text.count("\n") for text in texts if "DO NOT EDIT" not in text)
        assert found[name]["ops"] + found[name]["cost"] == lines


def test_files_that_a_declaration_writes_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = {
        "runtime/include/tilewright/gemm/args.h": "// Written by a program. DO NOT EDIT.\nint x;\n",
        "runtime/include/tilewright/gemm/binding.hpp": "int x;\nint y;\n",
        "runtime/tilewright/ops/gemm/cost_lean.py": "X = 1\n",
        "runtime/tilewright/interface/calls.py": "Y = 2\n",
    }
    monkeypatch.setattr(host_lines, "files", lambda revision: iter(texts.items()))
    assert host_lines.count() == {"gemm": {"cpp": 2, "cost": 1}, "core": {"ops": 1}}
