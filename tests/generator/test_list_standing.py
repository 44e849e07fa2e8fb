"""What `tilewright list` says of a kernel besides its name: built, tuned, compiled, run, hammered."""

from __future__ import annotations

import json
import platform
import shutil
from pathlib import Path
from typing import Any

import pytest
from command_line import ROOT, Command, run_in_a_process

from tilewright.architectures import device
from tilewright.architectures.device import H200
from tilewright.base import paths
from tilewright.compile.compilers import made_of
from tilewright.compile.source_keys import SourceKeys
from tilewright.declarations.table import KernelRecord, Table
from tilewright.families.gemm.family import FAMILY
from tilewright.families.gemm.problem import Problem
from tilewright.libraries.registry import Registry
from tilewright.selection import tuned_files
from tilewright.selection.tuned_header import Header
from tilewright.tools.tuning import tuned_writing
from tilewright_generator import records, standing
from tilewright_generator.project import Project

MODULE = "sm90_gemm_tf32_s8"
KEY = "0123456789abcdef" * 2  # of a library
PROBLEM = Problem(64, 4096, 4096, a="tf32", b="tf32", d="f32")


@pytest.fixture
def there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of a module in a project of its own: no record, nothing built, nothing tuned."""
    for name in (f"specs/{MODULE}.yaml", f"generated/{MODULE}", "runtime/include"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if (ROOT / name).is_dir() else shutil.copy)(ROOT / name, tmp_path / name)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("TILEWRIGHT_TUNED", raising=False)
    return tmp_path


@pytest.fixture
def table(there: Path) -> Table:
    return Table.read(there / "generated" / MODULE / "table.json")


def describe_library(there: Path, table: Table, names: list[str], key: str = KEY) -> Path:
    """A library.json, as linking writes it, of kernels of the table."""
    folder = there / "cache" / "libraries" / MODULE / key
    folder.mkdir(parents=True)
    (folder / f"{MODULE}.so").write_bytes(b"not loaded by a listing")
    kernels = {name: {"made_of": made_of(table[name]), "source_key": "", "object": ""} for name in names}
    data = {
        "format": 2, "module": MODULE, "key": key, "machine": platform.machine(), "headers": {},
        "toolchain": {"nvcc": "13.0.88", "host": "g++", "cutlass": "4.2.0"}, "kernels": kernels,
        "library": {"sha256": "", "bytes": 23}, "table": "",
    }  # fmt: skip
    (folder / "library.json").write_text(json.dumps(data))
    return folder / "library.json"


def listed(tilewright: Command, *arguments: str) -> dict[str, dict[str, Any]]:
    actual = tilewright("list", "--json", *arguments)
    assert actual.code == 0, actual.err
    return {row["name"]: row for row in json.loads(actual.out)}


def test_built_means_of_the_source_as_it_is(there: Path, table: Table, tilewright: Command) -> None:
    first, second, *_ = table
    path = describe_library(there, table, [first, second])
    data = json.loads(path.read_text())
    data["kernels"][second]["made_of"] = "of another source"
    path.write_text(json.dumps(data))
    built = {name: row["built"] for name, row in listed(tilewright).items()}
    assert built == {name: name == first for name in table}
    assert list(listed(tilewright, "--built")) == [first]
    assert len(listed(tilewright, "--not-built")) == len(table) - 1
    assert tilewright("list", "--built").out.splitlines()[:2] == [
        f"{MODULE}: 1 kernel, 1 built",
        f"  b---- {first}",
    ]
    path.write_text("{")
    assert listed(tilewright, "--built") == {}
    assert tilewright("list", "--built").out.splitlines()[0] == "no kernel is built here"


def test_every_library_counts_that_can_be_loaded(there: Path, table: Table, tilewright: Command) -> None:
    """A call takes a kernel from whichever of them holds it."""
    first, second, *_ = table
    describe_library(there, table, [first])
    describe_library(there, table, [second], KEY[::-1])
    assert set(listed(tilewright, "--built")) == {first, second}


def test_tuned_means_in_force_on_a_gpu(there: Path, table: Table, tilewright: Command) -> None:
    registry = Registry(there / "generated")
    ranked = FAMILY.rank(registry.kernels("gemm"), PROBLEM, H200)
    winner, other = (candidate.tactic for candidate in (ranked[0], next(
        candidate for candidate in ranked if candidate.record.name != ranked[0].record.name)))  # fmt: skip
    header = Header.of(H200, registry, "gemm")
    path = paths.tuned_file(there / "cache" / "tuned", H200.name, "gemm")
    problems = [PROBLEM, Problem(128, 4096, 4096, a="tf32", b="tf32", d="f32")]
    tuned_writing.update(path, header, FAMILY, [tuned_files.Entry(each, winner, 1e-5) for each in problems])
    rows = listed(tilewright, "--device", "h200")
    assert {name: row["tuned"] for name, row in rows.items() if row["tuned"]} == {winner.kernel: 2}
    assert rows[other.kernel]["tuned"] == 0
    assert list(listed(tilewright, "--tuned", "--device", "h200")) == [winner.kernel]
    assert f"  -t--- {winner.kernel}\n" in tilewright("list", "--device", "h200").out
    assert not any(row["tuned"] for row in listed(tilewright, "--device", "b200").values())


def test_without_a_gpu_nothing_is_known_of_tuned(
    there: Path, tilewright: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device, "present", lambda: None)
    assert {row["tuned"] for row in listed(tilewright).values()} == {None}
    assert "tuned (unknown: no GPU here; --device names one)" in tilewright("list").out
    wrong = tilewright("list", "--tuned")
    assert (wrong.code, "there is no GPU here; --device names one" in wrong.err) == (2, True)
    monkeypatch.setattr(device, "present", lambda: H200)
    assert "t tuned for NVIDIA H200" in tilewright("list").out


def test_verified_means_that_a_record_is_of_the_source_as_it_is(
    there: Path, table: Table, tilewright: Command
) -> None:
    keys = SourceKeys(there / "runtime" / "include", "4.2.0")
    current, stale, lost, never, *_ = table
    (measured, *_) = records.read(ROOT / f"benchmarks/results/compile/{MODULE}.json")["kernels"]
    named = (current, stale, lost)
    rows = [{**measured, "name": name, "source_key": keys.of(table, table[name])} for name in named]
    rows[1]["source_key"] = "of another source"
    records.write(there / f"benchmarks/results/compile/{MODULE}.json", {"format": 1}, rows)
    head = {"format": 1, "gpu": "NVIDIA H200", "date": "2026-01-01"}
    checks = [
        {
            "name": row["name"],
            "source_key": row["source_key"],
            "problems": 1,
            "max_error": 0.0,
            "passed": True,
        }
        for row in rows
    ]
    checks[0]["hammered"] = {"source_key": rows[0]["source_key"], "date": "1", "runs": 2000, "wrong": 0}
    checks[0]["source_key"], checks[1]["source_key"] = rows[0]["source_key"], "of another source"
    records.write(there / "benchmarks/results/gpu/h200.json", head, checks)
    table.source(table[lost]).unlink()
    actual = listed(tilewright)
    words = {name: (actual[name]["compiled"], actual[name]["run"]) for name in (current, stale, lost, never)}
    assert words == {
        current: ("current", "current"),
        stale: ("stale", "stale"),
        lost: ("stale", "stale"),
        never: ("never", "never"),
    }
    lines = tilewright("list").out.splitlines()
    assert lines[0].endswith("kernels, 1 compiled, 1 run, 1 hammered, 2 stale")
    assert {f"  --crh {current}", f"  --~~- {stale}", f"  ----- {never}"} <= set(lines)
    assert list(listed(tilewright, "--verified")) == [current]
    assert {name: row["hammered"] for name, row in actual.items() if row["hammered"] != "never"} == {
        current: "current"
    }


def test_a_failed_run_is_no_verification(there: Path, table: Table, tilewright: Command) -> None:
    name = next(iter(table))
    key = SourceKeys(there / "runtime" / "include", "4.2.0").of(table, table[name])
    head = {"format": 1, "gpu": "NVIDIA H200", "date": "2026-01-01"}
    row = {"name": name, "source_key": key, "problems": 0, "max_error": None, "passed": False}
    records.write(there / "benchmarks/results/gpu/h200.json", head, [row])
    assert listed(tilewright)[name]["run"] == "failed"
    lines = tilewright("list").out.splitlines()
    assert lines[0].endswith("kernels, 1 failed")
    assert f"  ---!- {name}" in lines
    assert listed(tilewright, "--verified") == {}


def test_a_kernel_that_the_hammer_failed_is_counted(there: Path, table: Table, tilewright: Command) -> None:
    name = next(iter(table))
    key = SourceKeys(there / "runtime" / "include", "4.2.0").of(table, table[name])
    head = {"format": 1, "gpu": "NVIDIA H200", "date": "2026-01-01"}
    hammered = {"source_key": key, "date": "2026-01-01", "runs": 2000, "wrong": 3}
    row = {
        "name": name,
        "source_key": key,
        "problems": 1,
        "max_error": 0.0,
        "passed": True,
        "hammered": hammered,
    }
    records.write(there / "benchmarks/results/gpu/h200.json", head, [row])
    assert listed(tilewright)[name]["hammered"] == "failed"
    lines = tilewright("list").out.splitlines()
    assert lines[0].endswith("kernels, 1 run, 1 failed")
    assert f"  ---r! {name}" in lines


def test_the_committed_project_is_listed_where_there_is_nothing(tmp_path: Path) -> None:
    """No cache, no GPU, and neither torch nor the binding may be imported."""
    (tmp_path / "torch.py").write_text("raise ImportError('there is none')\n")
    (tmp_path / "tvm_ffi.py").write_text("raise ImportError('there is none')\n")
    actual = run_in_a_process(
        "list", "--device", "h200",
        TILEWRIGHT_CACHE=str(tmp_path / "none"),
        PYTHONPATH=f"{tmp_path}:{ROOT}/generator:{ROOT}/runtime",
    )  # fmt: skip
    assert actual.code == 0, actual.err
    assert "r run on a GPU" in actual.out
    assert not (tmp_path / "none").exists()


def test_rows_are_parsed_at_most_once_and_only_of_what_a_library_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Listing 20,000 kernels takes half a second for this reason."""
    rows = [
        {"name": f"k{number}", "source": f"k{number}.cu", "sha256": f"{number:064}", "arch": "sm_90a",
         "defines": [], "instructions": [], "config": {}, "facts": {}} for number in range(200)
    ]  # fmt: skip
    folder = tmp_path / "generated" / MODULE
    folder.mkdir(parents=True)
    head = json.dumps({"format": 1, "module": MODULE, "family": "tiny", "spec": "specs/x.yaml"})[:-1]
    lines = ",\n".join(map(json.dumps, rows))
    (folder / "table.json").write_text(f'{head}, "kernels": [\n{lines}\n]}}\n')
    (tmp_path / "specs").mkdir()
    table = Table.read(folder / "table.json")
    describe_library(tmp_path, table, list(table)[::2])

    parse, parsed = KernelRecord.parse, []
    monkeypatch.setattr(KernelRecord, "parse", lambda row: parsed.append(row["name"]) or parse(row))
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "cache"))
    actual = standing.standings(Project.find(tmp_path), [MODULE], H200)
    built = [name for name, each in actual.items() if each.built]
    assert len(built) == 100
    assert sorted(parsed) == sorted(built)
