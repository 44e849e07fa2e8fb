"""A project whose one module was compiled and run."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from command_line import ROOT
from recorded_project import CODE, MODULE, _unit, status

from tilewright.compile.source_keys import HostKeys
from tilewright.declarations.table import Table
from tilewright_generator import records


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy with one module, with a compile record and a GPU record that are current."""
    for name in ("specs", "runtime/include", f"generated/{MODULE}"):
        shutil.copytree(ROOT / name, tmp_path / name)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    table = Table.read(tmp_path / "generated" / MODULE / "table.json")
    report = {
        "toolchain": {"nvcc": "13.0.88", "host": "g++ 12", "cutlass": "4.2.0"},
        "kernels": [_unit(tmp_path, table, name) for name in table],
    }
    (tmp_path / "report.json").write_text(json.dumps(report))
    done = status(tmp_path, "--record", tmp_path / "report.json")
    assert done.code == 0, done.err
    head = {"format": 1, "gpu": "NVIDIA H200", "driver": "1", "date": "2026-01-01"}
    keys = {unit["name"]: unit["source_key"] for unit in report["kernels"]}
    ran = {"machine_code": CODE, "problems": 9, "max_error": 1e-3, "passed": True}
    hosts = HostKeys(tmp_path / "runtime/include")
    checks = [
        {"name": name, "source_key": key, **ran, "host_key": hosts.of(table, table[name])}
        for name, key in keys.items()
    ]
    records.write(tmp_path / "benchmarks/results/gpu/h200.json", head, checks)
    return tmp_path
