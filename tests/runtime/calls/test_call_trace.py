"""How many files of the runtime a call enters: benchmarks/results/call_trace.md has the figures."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
# Moves of a first call. They should only get fewer: 329, until D's columns became a property of a problem.
MOST_MOVES = 347
ROW = re.compile(r"\| (\w+) \| (\d+) \| \d+ \| \d+ \| (\d+) \|")


def test_calls_enter_few_files() -> None:
    """In a process of its own, because earlier calls of this one would have filled caches."""
    pytest.importorskip("torch")
    command = [sys.executable, "-m", "benchmarks.host.call_trace"]
    run = subprocess.run(command, check=False, cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    calls = {call: (int(files), int(moves)) for call, files, moves in ROW.findall(run.stdout)}
    assert 100 < calls["first"][1] <= MOST_MOVES
    assert calls["second"][1] <= 7
    assert calls["third"] == (2, 2)
