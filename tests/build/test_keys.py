"""What is in a key and what is not."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from small_modules import Mini

from tilewright.base import paths
from tilewright.compile.depfile import unhashed_inputs
from tilewright.compile.keys import HeaderSet, digest
from tilewright.compile.nvcc.toolchain import NvccToolchain
from tilewright.compile.planning import Planner
from tilewright.compile.store import Store
from tilewright.compile.trees import tree_digest
from tilewright.errors import BuildError


def test_parts_cannot_run_together() -> None:
    assert digest("ab", "c") != digest("a", "bc")
    assert digest("a") != digest("a", "")
    assert len(digest("a")) == 32


@pytest.fixture
def include(tmp_path: Path) -> Path:
    folder = tmp_path / "include"
    (folder / "tilewright" / "gemm").mkdir(parents=True)
    (folder / "tilewright" / "abi.h").write_text("// abi\n")
    (folder / "tilewright" / "gemm" / "args.h").write_text('#include "tilewright/abi.h"\n')
    (folder / "tilewright" / "gemm" / "adapter.hpp").write_text(
        '#pragma once\n  #  include "tilewright/gemm/args.h"\n#include <vector>\n'
    )
    (folder / "tilewright" / "gemm" / "binding.hpp").write_text('#include "tilewright/gemm/args.h"\n')
    return folder


def test_headers_are_followed(include: Path) -> None:
    reached = HeaderSet(include).reached(b'#include "tilewright/gemm/adapter.hpp"\n')
    assert [Path(path).name for path in reached] == ["abi.h", "adapter.hpp", "args.h"]
    assert HeaderSet(include).reached(b"#include <vector>\n") == {}


def test_what_includes_cutlass_is_known(include: Path) -> None:
    (include / "tilewright" / "cutlass.hpp").write_text('#include "cutlass/gemm/gemm.h"\n')
    (include / "tilewright" / "layout.hpp").write_text("#include <cute/layout.hpp>\n")
    (include / "tilewright" / "over.hpp").write_text('#include "tilewright/cutlass.hpp"\n')
    headers = HeaderSet(include)
    own = b'#include "tilewright/gemm/adapter.hpp"\n// #include "cutlass/cutlass.h"\n'
    assert not headers.cutlass(own)
    assert headers.cutlass(own + b'# include "cutlass/cutlass.h"\n')
    assert all(headers.cutlass(b'#include "tilewright/%s.hpp"\n' % name) for name in (b"over", b"layout"))


def test_a_missing_header_is_named(include: Path) -> None:
    with pytest.raises(BuildError, match=r"tilewright/gone\.h: No such file"):
        HeaderSet(include).reached(b'#include "tilewright/gone.h"\n')


def _with_parts(toolchain: NvccToolchain, folder: Path, ptxas: bytes) -> NvccToolchain:
    (folder / "ptxas").write_bytes(ptxas)
    changed = replace(toolchain)
    parts = (folder / "ptxas" if path.name == "ptxas" else path for path in toolchain.parts)
    vars(changed)["parts"] = tuple(parts)  # the place where it is cached
    return changed


def test_a_key_covers_source_headers_flags_toolchain_and_cutlass(
    mini: Mini, toolchain: NvccToolchain, include: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cutlass = tmp_path / "cutlass"
    (cutlass / "cutlass").mkdir(parents=True)
    (cutlass / "cutlass" / "cutlass.h").write_text("1\n")
    tools = replace(toolchain, cutlass=cutlass)
    source = '#include "cutlass/cutlass.h"\n#include "tilewright/gemm/adapter.hpp"\n'

    def key(chain: NvccToolchain = tools, text: str = source, **row: object) -> str:
        table = mini.add_source("one", text, **row).table()
        return Planner(chain, Store(tmp_path / "cache"), include).unit(table, table["one"]).key

    first = key()
    assert key() == first
    keys = {
        first,
        key(text=source + "//"),
        key(defines=["X=1"]),
        key(arch="sm_100a"),
        key(replace(tools, nvcc_version="V13.0.89")),
        key(replace(tools, host_version="g++ 13")),
        key(replace(tools, machine="aarch64")),
        key(_with_parts(tools, tmp_path, b"ptxas of another wheel")),
    }
    assert len(keys) == 8
    monkeypatch.setenv("NVCC_APPEND_FLAGS", "-lineinfo")
    assert key(replace(tools)) not in keys
    monkeypatch.delenv("NVCC_APPEND_FLAGS")

    (include / "tilewright" / "gemm" / "binding.hpp").write_text("// the kernel does not read it\n")
    os.utime(cutlass / "cutlass" / "cutlass.h", (1, 1))
    assert key() == first
    moved = shutil.move(include, tmp_path / "elsewhere")
    table = mini.table()
    assert Planner(tools, Store(tmp_path / "cache"), Path(moved)).unit(table, table["one"]).key == first
    shutil.move(moved, include)

    (include / "tilewright" / "abi.h").write_text("// abi 2\n")
    assert key() != first
    (include / "tilewright" / "abi.h").write_text("// abi\n")
    (cutlass / "cutlass" / "cutlass.h").write_text("2\n")
    assert key() != first


def test_a_tree_is_read_once_and_again_when_it_changes(tmp_path: Path) -> None:
    tree, memory = tmp_path / "tree", tmp_path / "memory"
    (tree / "a").mkdir(parents=True)
    (tree / "a" / "x.h").write_text("one")
    first = tree_digest(tree, memory)
    assert tree_digest(tree, memory) == tree_digest(tree, None) == first
    for note in memory.iterdir():
        note.write_text("{ broken")
    assert tree_digest(tree, memory) == first
    os.utime(tree / "a" / "x.h", (5, 5))
    assert tree_digest(tree, memory) == first
    (tree / "a" / "x.h").write_text("two")
    second = tree_digest(tree, memory)
    assert second != first
    (tree / "a" / "x.h").rename(tree / "a" / "y.h")
    assert tree_digest(tree, memory) not in (first, second)


def test_a_remembered_digest_is_not_read_from_disk_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree, memory = tmp_path / "tree", tmp_path / "memory"
    tree.mkdir()
    (tree / "x.h").write_text("one")
    first = tree_digest(tree, memory)
    read: list[Path] = []
    with monkeypatch.context() as patch:
        patch.setattr("tilewright.compile.keys.file_sha256", lambda path: read.append(path) or "")
        assert tree_digest(tree, memory) == first
    assert read == []
    before = after = (tree / "x.h").stat()
    (tree / "x.h").write_text("two")
    while after.st_ctime_ns == before.st_ctime_ns:  # the clock of a file system may tick every 10 ms
        os.utime(tree / "x.h", ns=(before.st_atime_ns, before.st_mtime_ns))
        after = (tree / "x.h").stat()
    assert tree_digest(tree, memory) != first  # same size and time, but the inode was changed


def test_inputs_outside_what_was_hashed_are_found(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "root")
    depfile = (
        f"kernel.o: {tmp_path}/one.cu \\\n  {tmp_path}/link/in.h \\\n"
        f"  {tmp_path}/root/../out.h {tmp_path}/with\\ space.h relative.h\n"
    )
    actual = unhashed_inputs(depfile, tmp_path / "cwd", [f"{tmp_path}/one.cu"], [str(tmp_path / "root")])
    assert actual == sorted(
        map(str, (tmp_path / "cwd/relative.h", tmp_path / "out.h", tmp_path / "with space.h"))
    )


def test_the_real_headers_are_closed() -> None:
    include = paths.include_dir()
    for path in include.rglob("*"):
        if path.is_file():
            HeaderSet(include).reached(path.read_bytes())


def test_a_header_whose_name_is_not_utf_8(include: Path) -> None:
    with pytest.raises(BuildError, match="x86"):
        HeaderSet(include).reached(b'#include "tilewright/\x86.h"\n')
