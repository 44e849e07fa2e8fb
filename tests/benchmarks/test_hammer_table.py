"""The page of the hammer says what a GPU's record says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from benchmarks.robustness import hammer_table

from tilewright_generator import records
from tilewright_generator.project import Project
from tilewright_generator.status import CURRENT, FAILED, NEVER, STALE, Verdict

ROOT = Path(__file__).parents[2]


def verdict(name: str, word: str, runs: int, wrong: int) -> Verdict:
    return Verdict(name, "sm_90a", CURRENT, CURRENT, word, hammer={"runs": runs, "wrong": wrong})


def test_runs_are_added_up_by_family(monkeypatch: pytest.MonkeyPatch) -> None:
    verdicts = [
        ("lean", [verdict("a", CURRENT, 2000, 0), verdict("b", FAILED, 2500, 7), verdict("x", NEVER, 0, 0)]),
        ("stream", [verdict("c", STALE, 3000, 9)]),
        ("quantize", [verdict("d", CURRENT, 2001, 0)]),
    ]
    families = {"lean": "gemm", "stream": "gemm", "quantize": "quantize"}

    class Table:
        def __init__(self, module: str) -> None:
            self.module, self.family = module, families[module]

    monkeypatch.setattr(hammer_table.status, "tables", lambda project: [Table(name) for name in families])
    monkeypatch.setattr(hammer_table.status, "verdicts", lambda project: verdicts)
    kernels = [{"name": name, "hammered": {"date": f"2026-11-2{day}"}} for day, name in enumerate("abcd")]
    record: dict[str, Any] = {"gpu": "NVIDIA H200", "driver": "1", "kernels": [*kernels, {"name": "x"}]}
    text = hammer_table.page(record, hammer_table.RECORD, None)  # type: ignore[arg-type]
    assert [line for line in text.splitlines() if line.startswith("| ")][1:] == [
        "| gemm | 3 | 2 | 1 | 4,500 | 7 |",
        "| quantize | 1 | 1 | 0 | 2,001 | 0 |",
        "| **all** | 4 | 3 | 1 | 6,501 | 7 |",
    ]
    assert "[h200.json](gpu/h200.json)" in text
    assert text.endswith("NVIDIA H200, driver 1, 2026-11-20 to 2026-11-23.\n")
    nothing = hammer_table.page({"kernels": []}, hammer_table.RECORD, None)  # type: ignore[arg-type]
    assert nothing.endswith("No kernel has been hammered yet.\n")


def test_the_committed_page_is_of_the_committed_record() -> None:
    """After a change of kernels or records: `python -m benchmarks.robustness.hammer_table --write`."""
    text = hammer_table.page(records.read(hammer_table.RECORD), hammer_table.RECORD, Project.find(ROOT))
    assert hammer_table.PAGE.read_text(encoding="utf-8") == text
