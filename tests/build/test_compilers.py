"""Kernels of a second compiler go the way of nvcc's: keys, jobs, store, checks, library. nvcc has no part."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import tvm_ffi
from small_modules import TAIL, Mini

from tilewright.base import paths
from tilewright.compile.building import build
from tilewright.compile.compilers import COMPILERS, SUFFIXES, made_of, of, of_table, toolchain_for
from tilewright.compile.library import libraries
from tilewright.compile.nvcc.toolchain import NvccToolchain
from tilewright.compile.planning import Planner
from tilewright.compile.store import Store
from tilewright.compile.toolchain import HostToolchain, find_host_toolchain
from tilewright.errors import TableError, ToolchainError

SOURCE = """
#include <stdint.h>
#include "tilewright/abi.h"
namespace {{
int32_t can_implement(void const*) {{ return TILEWRIGHT_OK; }}
int64_t workspace_bytes(void const*) {{ return {number}; }}
int32_t launch(void const* args, void*, void*) {{ return *static_cast<int32_t const*>(args); }}
}}
"""


def add(mini: Mini, name: str, text: str = SOURCE + TAIL, number: int = 1, **row: object) -> Mini:
    """Adds a kernel that the host compiler makes, whose `workspace_bytes` answers `number`."""
    return mini.add_source(name, text.format(name=name, number=number), suffix=".cpp", compiler="host", **row)


@pytest.fixture
def without_nvcc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine on which only a host compiler can be found."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("g++", "as", "ld", "sh"):
        path = subprocess.run(["which", name], capture_output=True, text=True, check=True).stdout.strip()
        (programs / name).symlink_to(path)
    monkeypatch.setenv("PATH", str(programs))
    for name in ("CUDA_HOME", "CUDA_PATH", "CUTLASS_PATH", "CXX"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("tilewright.compile.nvcc.toolchain.package_folders", lambda _: [])
    monkeypatch.setattr("tilewright.compile.nvcc.cutlass.package_folders", lambda _: [])


@pytest.mark.usefixtures("without_nvcc")
def test_a_host_kernel_is_built_and_loaded_without_nvcc(mini: Mini, store: Store) -> None:
    table = add(add(mini, "one", number=11), "two", number=22).table()
    assert type(toolchain_for([table])) is HostToolchain
    report = build([table], store=store, strict=True)
    assert report.ok, report.explain_failures()
    assert [unit.status for unit in report.units] == ["built", "built"]
    assert [unit.data["threads"] for unit in report.units] == [128, 128]  # read from the object
    (library,) = libraries("mini", store=store)
    assert library.holds(table["one"])
    assert not library.holds(table["one"]._replace(compiler="nvcc"))
    module = tvm_ffi.load_module(str(library.path))
    assert [module.number(name) for name in ("one", "two", "other")] == [11, 22, -1]
    again = build([table], store=store)
    assert [unit.status for unit in again.units] == ["cached", "cached"]
    cuda = Mini(store.root.parent / "cuda", "cuda").add("kernel").table()
    with pytest.raises(ToolchainError, match="no usable nvcc"):
        build([table, cuda], store=store)
    with pytest.raises(ToolchainError, match="this toolchain has no nvcc"):
        build([cuda], store=store, toolchain=find_host_toolchain())


@pytest.mark.usefixtures("without_nvcc")
def test_a_fault_in_a_host_kernel_bears_its_name(mini: Mini, store: Store) -> None:
    fault = (SOURCE + TAIL).replace("return {number};", "return number_of_bytes;")
    table = add(add(mini, "sound"), "faulty", fault).table()
    report = build([table], store=store)
    assert [unit.name for unit in report.failures] == ["faulty"]
    text = report.explain_failures()
    assert "faulty: the compiler exits 1" in text
    assert "faulty.cpp:" in text
    assert "number_of_bytes" in text
    assert report.failures[0].refusal  # the source is at fault, so a call does not try again
    assert tvm_ffi.load_module(str(libraries("mini", store=store)[0].path)).number("sound") == 1


@pytest.mark.usefixtures("without_nvcc")
def test_what_a_table_says_of_a_host_kernel_is_checked(mini: Mini, store: Store) -> None:
    table = add(mini, "one", facts={"threads": 256}).table()
    report = build([table], store=store, strict=True)
    assert [finding.kind for finding in report.failures[0].findings] == ["facts"]
    changed = add(mini, "one", SOURCE + TAIL.replace("tilewright_{name}", "another_{name}")).table()
    (failure,) = build([changed], store=store).failures
    assert "its object does not define tilewright_one" in failure.findings[0].message


def test_compilers_share_no_key(mini: Mini, store: Store, toolchain: NvccToolchain) -> None:
    table = add(mini, "one").table()
    planner = Planner(toolchain, store, paths.include_dir())
    host, cuda = (planner.unit(table, table["one"]._replace(compiler=name)) for name in ("host", "nvcc"))
    assert host.key != cuda.key
    assert host.source_key != cuda.source_key
    assert made_of(host.record) != made_of(cuda.record)
    # A host kernel is keyed by the host compiler alone: its key is the same without nvcc and CUTLASS.
    alone = Planner(find_host_toolchain(), store, paths.include_dir()).unit(table, table["one"])
    assert (alone.key, alone.source_key) == (host.key, host.source_key)
    assert planner.kernel_job(host, 1, ()).command[0] == toolchain.host[0]


def test_a_module_has_one_compiler(mini: Mini, store: Store, toolchain: NvccToolchain) -> None:
    table = add(mini.add("cuda"), "host").table()
    assert of_table(table).name == "host"
    planner = Planner(toolchain, store, paths.include_dir())
    assert planner.unit(table, table["host"]).problem == ""
    assert "its compiler is nvcc, its module's is host" in planner.unit(table, table["cuda"]).problem


def test_rows_name_compilers_that_there_are(mini: Mini) -> None:
    assert [of(record).name for record in mini.add("usual").table().values()] == ["nvcc"]
    assert len(set(SUFFIXES)) == len(COMPILERS)  # so that a file's name says by what it is compiled
    assert ".cc" not in SUFFIXES  # a module's table.cc is no kernel
    table = mini.add("odd", compiler="cl").table()
    with pytest.raises(TableError, match="compiler"):
        table["odd"]


def test_listing_libraries_imports_no_compiler_driver() -> None:
    code = (
        "import sys, tilewright.compile.library;"
        "heavy = {'toolchain', 'disassembly', 'machine_code', 'findings', 'report', 'unit'};"
        "print(sorted(heavy & {name.removeprefix('tilewright.compile.') for name in sys.modules}))"
    )
    search = os.pathsep.join([str(paths.include_dir().parent), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": search}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.strip() == "[]"
