"""Files that a benchmark writes."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.lib import machine


def test_rows_are_written_one_to_a_line(tmp_path: Path) -> None:
    output = tmp_path / "results" / "stacks"
    machine.write_rows(output, {"measure": "stack", "not_measured": []}, [{"us": 1.5}, {"us": None}])
    text = output.with_suffix(".json").read_text(encoding="utf-8")
    assert json.loads(text) == {"measure": "stack", "not_measured": [], "rows": [{"us": 1.5}, {"us": None}]}
    assert '{"us": 1.5},\n{"us": null}\n' in text
