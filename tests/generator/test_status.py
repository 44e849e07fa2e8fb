"""docs/status.md says of every kernel what the committed records say, and nothing that has become untrue."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from command_line import ROOT, run_in_a_process

from tilewright.build import records
from tilewright.table import Table

MODULE = "sm90_gemm_tf32_s8"


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
    done = run_in_a_process("status", "--write", "--record", tmp_path / "report.json", "--root", tmp_path)
    assert done.code == 0, done.err
    head = {"format": 1, "gpu": "NVIDIA H200", "driver": "1", "date": "2026-01-01"}
    keys = {unit["name"]: unit["source_key"] for unit in report["kernels"]}
    checks = [
        {"name": name, "source_key": key, "problems": 9, "max_error": 1e-3, "passed": True}
        for name, key in keys.items()
    ]
    records.write(tmp_path / "benchmarks/results/gpu/h200.json", head, checks)
    assert run_in_a_process("status", "--write", "--root", tmp_path).code == 0
    return tmp_path


def _unit(project: Path, table: Table, name: str) -> dict[str, object]:
    return {
        "name": name,
        "module": table.module,
        "source_key": records.SourceKeys(project / "runtime" / "include", "4.2.0").of(table, table[name]),
        **dict.fromkeys(("spill_store_bytes", "spill_load_bytes", "stack_bytes"), 0),
        **{"registers": 168, "smem_bytes": 1, "code_bytes": 2, "seconds": 40.0, "peak_memory_bytes": 3},
        "tensor_instructions": {"HGMMA.64x8x16.F32.BF16": 4},
        "grid_dependency": {"ACQBULK": 1},
        "findings": [],
    }


def page(project: Path) -> str:
    return (project / "docs" / "status.md").read_text(encoding="utf-8")


def first_row(project: Path) -> str:
    return next(line for line in page(project).splitlines() if line.startswith("| `"))


def check(project: Path) -> int:
    return run_in_a_process("status", "--check", "--root", project).code


def test_says_what_the_records_say(project: Path) -> None:
    kernels = len(Table.read(project / "generated" / MODULE / "table.json"))
    assert f"| [{MODULE}](#{MODULE}) | {kernels} | {kernels} | 0 | 0 | {kernels} | 0 | 0 |" in page(project)
    assert "| current | 168 | 0 | HGMMA | NVIDIA H200, current | 9 | 1.0e-03 |" in first_row(project)
    assert check(project) == 0


def test_a_missing_row_fails(project: Path) -> None:
    path = project / "docs" / "status.md"
    path.write_text(page(project).replace(first_row(project) + "\n", ""), encoding="utf-8")
    assert check(project) == 1


@pytest.mark.parametrize("what", ["runtime/include/tilewright/gemm/args.h", "source", "pyproject.toml"])
def test_an_outdated_row_shown_as_current_fails(project: Path, what: str) -> None:
    name = first_row(project).split("`")[1]
    path = project / (f"generated/{MODULE}/{name}.cu" if what == "source" else what)
    text = path.read_text(encoding="utf-8")
    text = (
        text.replace("nvidia-cutlass==4.2.0", "nvidia-cutlass==4.3.0")
        if "toml" in what
        else text + "\n// x\n"
    )
    path.write_text(text, encoding="utf-8")
    assert check(project) == 1
    assert run_in_a_process("status", "--write", "--root", project).code == 0
    assert "| stale | 168 |" in first_row(project)
    assert "NVIDIA H200, stale" in first_row(project)


def test_a_failed_run_is_no_run(project: Path) -> None:
    path = project / "benchmarks/results/gpu/h200.json"
    path.write_text(path.read_text().replace('"passed": true', '"passed": false', 1))
    assert check(project) == 1
    run_in_a_process("status", "--write", "--root", project)
    assert "| never |" in first_row(project)


def test_a_report_of_other_sources_is_refused(project: Path) -> None:
    name = first_row(project).split("`")[1]
    with (project / f"generated/{MODULE}/{name}.cu").open("a") as source:
        source.write("// edited\n")
    done = run_in_a_process("status", "--record", project / "report.json", "--root", project)
    assert done.code != 0
    assert "another source" in done.err


def test_records_merge_and_forget_kernels_that_went(project: Path) -> None:
    path = project / "benchmarks/results/compile" / f"{MODULE}.json"
    table = Table.read(project / "generated" / MODULE / "table.json")
    before = records.read(path)
    row = {**before["kernels"][0], "registers": 99}
    records.merge(path, {"toolchain": before["toolchain"]}, [row, {**row, "name": "gone"}], table)
    after = records.read(path)
    assert [each["name"] for each in after["kernels"]] == sorted(table)
    assert after["kernels"][0]["registers"] == 99
    assert path.read_text().count("\n") == len(table) + 2


def test_this_repository_is_in_step() -> None:
    done = run_in_a_process("status", "--check", "--root", ROOT)
    assert done.code == 0, done.out
