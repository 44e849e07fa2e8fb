"""A tune that is killed at any moment loses what was under way and nothing else; on kernels of the host."""

from __future__ import annotations

import json
import os
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
KILLS = 3


@pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")
def test_what_killed_tunes_leave(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "tests" / "runtime"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    import host_tuning  # noqa: PLC0415
    from benchmarks.robustness import kill_tune  # noqa: PLC0415
    from host_modules import HOST_ROWS, build_host_library, write_table  # noqa: PLC0415
    from host_programs import FOLDER  # noqa: PLC0415

    write_table(tmp_path / "generated", "host_gemm", HOST_ROWS)
    library = build_host_library(FOLDER, "gemm", HOST_ROWS, "host_kernels.cc")
    described = tmp_path / "site.json"
    described.write_text(
        json.dumps({"generated": str(tmp_path / "generated"), "library": str(library), "seconds": 0.1})
    )
    file = tmp_path / "tuned" / "gemm.json"
    program = [sys.executable, host_tuning.__file__, str(described), str(file)]
    actual = kill_tune.hammer(program, file, KILLS, 1, 0.4)
    assert actual["ok"], actual
    assert actual["entries"] == len(host_tuning.PROBLEMS)
    killed = [row for row in actual["rows"] if row["ended_before"] is None]
    assert killed, "on a machine so busy that the killer comes too late, at least the first"
    assert all(row["after"] > row["before"] for row in killed), "each went on where the other was"
