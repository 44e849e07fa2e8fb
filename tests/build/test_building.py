"""Builds real kernels with real nvcc."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from small_modules import HEAD, PLAIN, SERIALIZED, SPILLING, STACK, TENSOR, Mini

from tilewright.base import paths
from tilewright.compile.building import build
from tilewright.compile.library import described, libraries
from tilewright.compile.nvcc.toolchain import NvccToolchain
from tilewright.compile.progress import Lines
from tilewright.compile.report import BuildReport
from tilewright.compile.store import Store
from tilewright.errors import BuildError, ToolchainError

pytestmark = pytest.mark.compile
Launcher = Callable[..., tuple[list[str], Path]]


def statuses(report: BuildReport) -> dict[str, str]:
    return {unit.name: unit.status for unit in report.units}


def kinds(report: BuildReport) -> dict[str, list[str]]:
    return {unit.name: [finding.kind for finding in unit.findings] for unit in report.units}


def numbers(report: BuildReport, *names: str) -> list[int]:
    """What the linked library answers for each kernel; -1 where it does not hold it."""
    tvm_ffi = pytest.importorskip("tvm_ffi")
    module = tvm_ffi.load_module(str(report.libraries[0].path))
    return [module.number(name) for name in names]


def test_builds_links_and_caches(mini: Mini, store: Store, toolchain: NvccToolchain, capfd: Any) -> None:
    table = mini.add("one", number=1).add("two", TENSOR, number=2, instructions=["HGMMA"]).table()
    report = build([table], store=store, toolchain=toolchain, progress=Lines())
    assert report.ok, report.explain_failures()
    assert statuses(report) == {"one": "built", "two": "built"}
    assert numbers(report, "one", "two", "three") == [1, 2, -1]
    out, err = capfd.readouterr()
    assert out == ""
    assert "[3/3]" in err  # the kernels and the table

    data = report.units[1].data
    assert data["tensor_instructions"] == {"HGMMA.64x8x16.F32.BF16": 2}
    assert data["registers"] > 0
    assert data["code_bytes"] % 16 == 0
    assert data["code_bytes"] > 0
    assert data["peak_memory_bytes"] > 10 << 20
    assert (data["threads"], data["smem_bytes"]) == (128, 1024)
    assert "HGMMAx2" in report.table()
    json.dumps(report.to_json())

    before = {path: path.stat().st_mtime_ns for path in store.root.rglob("*.o")}
    again = build([table], store=store, toolchain=toolchain)
    assert statuses(again) == {"one": "cached", "two": "cached"}
    assert again.libraries == report.libraries
    assert {path: path.stat().st_mtime_ns for path in store.root.rglob("*.o")} == before
    assert list((store.root / "tmp").iterdir()) == list((store.root / "work").iterdir()) == []


def test_a_source_makes_the_same_bytes_each_time(
    mini: Mini, toolchain: NvccToolchain, tmp_path: Path
) -> None:
    """Also after a build that was killed, or on another day."""
    table = mini.add("one", number=1).table()
    first, second = (build([table], store=Store(tmp_path / name), toolchain=toolchain) for name in "ab")
    library, rebuilt = (report.libraries[0].path.read_bytes() for report in (first, second))
    assert library == rebuilt
    objects = [report.units[0].data["object"]["sha256"] for report in (first, second)]
    assert objects[0] == objects[1]


def test_one_kernel_at_a_time_adds_to_the_library(mini: Mini, store: Store, toolchain: NvccToolchain) -> None:
    table = mini.add("one", number=1).add("two", number=2).add("three", number=3).table()
    first = build([table], ["one"], store=store, toolchain=toolchain)
    assert numbers(first, "one", "two", "three") == [1, -1, -1]
    second = build([table], lambda record: record.name == "three", store=store, toolchain=toolchain)
    assert statuses(second) == {"three": "built"}
    assert numbers(second, "one", "two", "three") == [1, -1, 3]
    listed = libraries("mini", store=store)
    assert [len(library.kernels) for library in listed] == [2, 1]
    assert listed[0].holds(table["one"])
    assert not listed[0].holds(table["two"])

    table = mini.add("one", number=7).table()  # its old object no longer belongs to the table
    third = build([table], ["three"], store=store, toolchain=toolchain)
    assert set(third.libraries[0].kernels) == {"three"}


def test_what_was_built_last_comes_first(mini: Mini, store: Store, toolchain: NvccToolchain) -> None:
    table = mini.add("one", number=1).add("two", number=2).table()
    other = replace(toolchain, nvcc_version=toolchain.nvcc_version + "\nBuild of another day")
    both = build([table], store=store, toolchain=toolchain).libraries
    newer = build([table], ["one"], store=store, toolchain=other).libraries  # no object of the first fits
    assert [len(library.kernels) for library in (*both, *newer)] == [2, 1]
    assert libraries("mini", store=store) == [*newer, *both]
    assert build([table], store=store, toolchain=toolchain).libraries == both  # linked already
    assert libraries("mini", store=store) == [*both, *newer]


def test_a_library_holds_what_its_rows_and_headers_make(
    mini: Mini, store: Store, toolchain: NvccToolchain, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    include = tmp_path / "include"
    shutil.copytree(paths.include_dir(), include)
    table = mini.add("one", number=1).table()
    report = build([table], store=store, toolchain=toolchain, include=include)
    (library,) = libraries("mini", store=store, include=include)
    assert library.holds(table["one"])
    assert described(library.path).kernels["one"]["source_key"] == report.units[0].source_key
    for changed in ({"arch": "sm_100a"}, {"defines": ("X=1",)}, {"sha256": "0" * 64}, {"name": "two"}):
        assert not library.holds(table["one"]._replace(**changed)), changed
    with monkeypatch.context() as patch:
        patch.setattr("tilewright.compile.nvcc.compiler._KERNEL_FLAGS", ("-O2",))
        assert not library.holds(table["one"])

    with monkeypatch.context() as patch:  # a home that machines of both kinds mount
        patch.setattr("os.uname", lambda: SimpleNamespace(machine="another"))
        assert libraries("mini", store=store, include=include) == []

    (include / "tilewright" / "gemm" / "binding.hpp").write_text("// nothing in mini reads it\n")
    (include / "tilewright" / "new_family").mkdir()
    (include / "tilewright" / "new_family" / "args.h").write_text("// new\n")
    assert libraries("mini", store=store, include=include) == [library]
    abi = include / "tilewright" / "abi.h"
    text = abi.read_text()
    abi.write_text(text + "// edited\n")
    assert libraries("mini", store=store, include=include) == []
    abi.unlink()
    assert libraries("mini", store=store, include=include) == []
    abi.write_text(text)
    assert libraries("mini", store=store, include=include) == [library]


def test_findings_name_the_kernel_and_fail_as_they_should(
    mini: Mini, store: Store, toolchain: NvccToolchain
) -> None:
    mini.add("plain", number=1, instructions=["HGMMA"]).add("spilling", SPILLING, number=2)
    mini.add("serial", SERIALIZED, number=3, instructions=["HGMMA"]).add("stack", STACK, number=4)
    table = mini.add("sound", number=5, facts={"smem_bytes": 1024, "threads": 128}).table()
    report = build([table], store=store, toolchain=toolchain)
    assert kinds(report)["plain"] == ["wrong_path"]
    assert kinds(report)["spilling"] == ["spills"]
    assert kinds(report)["stack"] == ["stack"]
    assert kinds(report)["serial"][0] == "serialized_mma"
    assert kinds(report)["sound"] == []
    assert [unit.name for unit in report.failures] == ["plain"]
    with pytest.raises(BuildError, match="plain: wrong path: its SASS has no HGMMA"):
        report.raise_for_failures()
    assert numbers(report, "plain", "spilling", "serial", "stack", "sound") == [-1, 2, 3, 4, 5]

    strict = build([table], store=store, toolchain=toolchain, strict=True)
    assert {unit.name for unit in strict.failures} == {"plain", "spilling", "serial", "stack"}
    assert statuses(strict)["spilling"] == "cached"  # the verdict needs no compiler
    assert numbers(strict, "spilling", "sound") == [-1, 5]


def test_a_table_that_is_wrong_about_a_kernel_fails_a_strict_build(
    mini: Mini, store: Store, toolchain: NvccToolchain
) -> None:
    table = mini.add("one", facts={"smem_bytes": 999, "threads": 128}).table()
    report = build([table], store=store, toolchain=toolchain, strict=True)
    assert "the table says smem_bytes is 999, the object says 1024" in report.explain_failures()


def test_compile_errors_are_shown_with_log_and_command(
    mini: Mini, store: Store, toolchain: NvccToolchain
) -> None:
    mini.add("good", number=5)
    table = mini.add("bad", "__global__ void {name}() {{ undeclared = {number}; }}").table()
    report = build([table], store=store, toolchain=toolchain)
    assert statuses(report) == {"good": "built", "bad": "failed"}
    assert numbers(report, "good", "bad") == [5, -1]
    shown = report.explain_failures()
    assert 'identifier "undeclared" is undefined' in shown
    assert f"reproduce: {toolchain.nvcc}" in shown
    log = Path(report.units[1].log).read_text()
    assert log.startswith("$ ")
    assert "undeclared" in log


def test_what_a_compiler_that_fails_leaves_is_no_object(
    mini: Mini, store: Store, toolchain: NvccToolchain, launcher: Launcher
) -> None:
    command, _ = launcher('"$@"; exit 3')
    report = build([mini.add("one").table()], store=store, toolchain=toolchain, launcher=command)
    assert statuses(report) == {"one": "failed"}
    assert "the compiler exits 3" in report.explain_failures()
    assert store.entry(report.to_json()["kernels"][0]["key"]) is None


def test_an_object_without_its_descriptor_fails(mini: Mini, store: Store, toolchain: NvccToolchain) -> None:
    mini.add_source("one", (HEAD + PLAIN).format(name="one", number=1))
    report = build([mini.table()], store=store, toolchain=toolchain)
    assert "does not define tilewright_one" in report.explain_failures()


def test_a_source_that_the_table_does_not_know_is_not_built(
    mini: Mini, store: Store, toolchain: NvccToolchain
) -> None:
    table = mini.add("one").table()
    (mini.folder / "one.cu").write_text("// edited by hand\n")
    report = build([table], store=store, toolchain=toolchain)
    assert "is not what table.json lists" in report.explain_failures()
    (mini.folder / "one.cu").unlink()
    assert "No such file" in build([table], store=store, toolchain=toolchain).explain_failures()


def test_what_is_included_must_be_in_the_key(
    mini: Mini, store: Store, toolchain: NvccToolchain, tmp_path: Path
) -> None:
    stray = tmp_path / "stray.h"
    stray.write_text("#define STRAY 1\n")
    body = 'extern "C" __global__ void {name}(int* x) {{ *x = STRAY; }}'
    table = mini.add("one", f'#include "{stray}"\n{body}').table()
    report = build([table], store=store, toolchain=toolchain)
    assert "includes files that its key does not cover" in report.explain_failures()
    assert str(stray) in report.explain_failures()


def test_a_broken_entry_is_set_aside_and_rebuilt(mini: Mini, store: Store, toolchain: NvccToolchain) -> None:
    table = mini.add("one", number=1).add("two", number=2).add("three", number=3).table()
    report = build([table], store=store, toolchain=toolchain)
    one, two, three = (store.root / "objects" / unit.key for unit in report.units)
    (one / "kernel.o").write_bytes((one / "kernel.o").read_bytes()[:100])  # cut short
    flipped = bytearray((two / "kernel.o").read_bytes())
    flipped[len(flipped) // 2] ^= 1
    (two / "kernel.o").write_bytes(flipped)  # the right length
    (three / "report.json").write_text("{")
    again = build([table], store=store, toolchain=toolchain)
    assert again.ok
    assert statuses(again) == {"one": "built", "two": "built", "three": "built"}
    assert len(list((store.root / "quarantine").iterdir())) == 3
    assert numbers(again, "one", "two", "three") == [1, 2, 3]


def test_a_broken_library_is_linked_again(mini: Mini, store: Store, toolchain: NvccToolchain) -> None:
    table = mini.add("one", number=4).table()
    library = build([table], store=store, toolchain=toolchain).libraries[0].path
    library.write_bytes(library.read_bytes()[:1000])
    assert libraries("mini", store=store) == []
    assert numbers(build([table], store=store, toolchain=toolchain), "one") == [4]


def test_a_unit_killed_for_memory_is_tried_again_alone(
    mini: Mini,
    store: Store,
    toolchain: NvccToolchain,
    launcher: Launcher,
    tmp_path: Path,
) -> None:
    command, notes = launcher(f"mkdir {tmp_path}/once 2>/dev/null && kill -9 $$")
    table = mini.add("one", number=1).add("two", number=2).table()
    report = build([table], store=store, toolchain=toolchain, launcher=command, jobs=2)
    assert report.ok, report.explain_failures()
    assert notes.read_text().count("start") == 3


def test_a_dry_run_writes_nothing(mini: Mini, store: Store, toolchain: NvccToolchain) -> None:
    report = build([mini.add("one").table()], store=store, toolchain=toolchain, dry_run=True)
    assert statuses(report) == {"one": "missing"}
    assert report.ok
    assert not store.root.exists()


def test_an_architecture_nvcc_does_not_know(mini: Mini, store: Store, toolchain: NvccToolchain) -> None:
    with pytest.raises(
        ToolchainError, match=r"cannot compile for sm_999a; it knows .*sm_90.*\nA newer nvcc may"
    ):
        build([mini.add("one", arch="sm_999a").table()], store=store, toolchain=toolchain)


def test_a_module_without_its_table_source_says_what_to_run(
    mini: Mini, store: Store, toolchain: NvccToolchain
) -> None:
    table = mini.add("one").table()
    (mini.folder / "table.cc").unlink()
    report = build([table], store=store, toolchain=toolchain)
    assert not report.ok
    assert "tilewright generate" in report.explain_failures()


def test_a_table_source_that_does_not_compile_or_link(
    mini: Mini, store: Store, toolchain: NvccToolchain
) -> None:
    table = mini.add("one").table()
    (mini.folder / "table.cc").write_text("int f( {")
    assert "error: " in build([table], store=store, toolchain=toolchain).explain_failures()
    (mini.folder / "table.cc").write_text("int missing(); int f() { return missing(); }")
    assert "undefined reference" in build([table], store=store, toolchain=toolchain).explain_failures()
