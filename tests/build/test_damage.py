"""Damaged and foreign files in the build cache: named, set aside, made again or refused; never used."""

from __future__ import annotations

import json
import logging
import os
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from small_modules import Mini

from tilewright.compile.building import build
from tilewright.compile.damage import set_aside_damaged
from tilewright.compile.keys import file_sha256
from tilewright.compile.library import libraries
from tilewright.compile.nvcc.toolchain import NvccToolchain
from tilewright.compile.store import Store
from tilewright.declarations.table import Table
from tilewright.errors import BuildError, NotBuiltError, TilewrightError
from tilewright.libraries.registry import Registry

pytestmark = pytest.mark.compile
Spoil = Callable[[Path, Path], None]  # a folder of the module, one of another module


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, toolchain: NvccToolchain) -> tuple[Path, Path]:
    """The sources of modules `mini` (one: 4, two: 5) and `other` (one: 6), and a cache that holds them."""
    root = tmp_path_factory.mktemp("made")
    tables = [
        Mini(root / "generated").add("one", number=4).add("two", number=5).table(),
        Mini(root / "generated", "other").add("one", number=6).table(),
    ]
    report = build(tables, store=Store(root / "cache"), toolchain=toolchain)
    assert report.ok, report.explain_failures()
    return root / "generated", root / "cache"


@pytest.fixture
def cache(made: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """A copy of that cache, to spoil; it is this process's."""
    shutil.copytree(made[1], tmp_path / "cache")
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("tilewright.compile.library._said", set())
    return Store()


@pytest.fixture
def table(made: tuple[Path, Path]) -> Table:
    return Table.read(made[0] / "mini" / "table.json")


def library_of(store: Store, module: str) -> Path:
    (library,) = libraries(module, store=store)
    return library.path


def restate(folder: Path, **changed: Any) -> None:
    """Makes library.json agree with the .so beside it."""
    path = folder / "library.json"
    data = json.loads(path.read_text())
    library = folder / f"{data['module']}.so"
    data["library"] = {"sha256": file_sha256(library), "bytes": library.stat().st_size}
    path.write_text(json.dumps(data | changed))


def truncated(folder: Path, other: Path) -> None:
    library = folder / "mini.so"
    library.write_bytes(library.read_bytes()[:1000])


def one_bit(folder: Path, other: Path) -> None:
    """Flips a bit and keeps size and time: only the inode tells that something was written."""
    library = folder / "mini.so"
    before, data = library.stat(), bytearray(library.read_bytes())
    data[len(data) // 2] ^= 1
    library.write_bytes(data)
    os.utime(library, ns=(before.st_atime_ns, before.st_mtime_ns))


def another_library(folder: Path, other: Path) -> None:
    """Made as long as the right one, so that its size says nothing."""
    library = folder / "mini.so"
    size = library.stat().st_size
    data = (other / "other.so").read_bytes()
    library.write_bytes(data[:size].ljust(size, b"\0"))


def gone(folder: Path, other: Path) -> None:
    (folder / "mini.so").unlink()


def of_another_module(folder: Path, other: Path) -> None:
    """Its kernel has the same name, so only its description tells."""
    shutil.rmtree(folder)
    shutil.copytree(other, folder)
    (folder / "other.so").rename(folder / "mini.so")


def under_another_key(folder: Path, other: Path) -> None:
    restate(folder, key="0" * 32)


def description_cut(folder: Path, other: Path) -> None:
    path = folder / "library.json"
    path.write_bytes(path.read_bytes()[:-200])


def description_of_other_types(folder: Path, other: Path) -> None:
    restate(folder, kernels=["one", "two"])


SPOILED = {
    truncated: "mini.so is damaged: 1000 bytes",
    one_bit: "mini.so is damaged: its content is not what was linked",
    another_library: "mini.so is damaged: its content is not what was linked",
    gone: "mini.so: No such file",
    of_another_module: "is a library of module other, not of mini",
    under_another_key: "holds the library 0000",
    description_cut: "library.json is damaged",
    description_of_other_types: "library.json is damaged",
}


@pytest.mark.parametrize("spoil", SPOILED, ids=lambda spoil: spoil.__name__)
def test_a_library_that_is_not_what_was_linked(
    spoil: Spoil,
    cache: Store,
    table: Table,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    folder = library_of(cache, "mini").parent
    assert Registry(table.folder.parent).is_built(table["one"])
    spoil(folder, library_of(cache, "other").parent)

    monkeypatch.setenv("TILEWRIGHT_JIT", "0")  # refused: nothing of it runs, and it stays where it is
    registry = Registry(table.folder.parent)
    with pytest.raises(NotBuiltError, match="one is not built"):
        registry.library(table["one"])
    assert SPOILED[spoil] in caplog.text
    assert folder.exists()

    monkeypatch.delenv("TILEWRIGHT_JIT")  # set aside, and linked again from the objects
    library = registry.library(table["one"])
    assert library._module.number("one") == 4
    assert registry.library(table["two"])._module.number("two") == 5
    assert [path.name.split("-", 1)[1] for path in (cache.root / "quarantine").iterdir()] == [folder.name]
    assert "a damaged library" in caplog.text
    assert "quarantine" in caplog.text


def of_another_machine(folder: Path, other: Path) -> None:
    library = folder / "mini.so"
    data = bytearray(library.read_bytes())
    struct.pack_into("<H", data, 18, 0xF3)  # e_machine: RISC-V
    library.write_bytes(data)
    restate(folder)


def no_elf_at_all(folder: Path, other: Path) -> None:
    (folder / "mini.so").write_text("#!/bin/sh\n")
    restate(folder)


def without_the_kernel(folder: Path, other: Path) -> None:
    """A library of another module whose description names this one's kernels."""
    shutil.copy(other / "other.so", folder / "mini.so")
    restate(folder)


FORGED = {
    of_another_machine: "mini.so does not load",
    no_elf_at_all: "mini.so does not load",
    without_the_kernel: "mini.so does not hold two, though its record says so",
}


@pytest.mark.parametrize("spoil", FORGED, ids=lambda spoil: spoil.__name__)
def test_a_library_whose_description_is_wrong_too(
    spoil: Spoil, cache: Store, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILEWRIGHT_JIT", "0")
    spoil(library_of(cache, "mini").parent, library_of(cache, "other").parent)
    with pytest.raises(NotBuiltError, match=FORGED[spoil]):
        Registry(table.folder.parent).library(table["two"])


def test_a_library_of_another_abi(
    tmp_path: Path, toolchain: NvccToolchain, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "cache"))
    mini = Mini(tmp_path / "generated").add("one")
    table = mini.table()
    source = mini.folder / "table.cc"
    source.write_text(source.read_text().replace("answer(TILEWRIGHT_ABI_VERSION, ", "answer(77, "))
    assert build([table], toolchain=toolchain).ok
    with pytest.raises(TilewrightError, match=r"mini\.so has ABI 77, this tilewright"):
        Registry(tmp_path / "generated").library(table["one"])


def test_what_is_of_another_format_or_machine_is_no_damage(cache: Store, table: Table) -> None:
    path = library_of(cache, "mini").with_name("library.json")
    data = json.loads(path.read_text())
    for changed in ({"format": 99}, {"machine": "another"}):
        path.write_text(json.dumps(data | changed))
        assert libraries("mini", store=cache) == []
        assert set_aside_damaged("mini", cache, table.folder) == []
        assert path.exists()


def cut_object(entry: Path, other: Path) -> None:
    (entry / "kernel.o").write_bytes((entry / "kernel.o").read_bytes()[:100])


def bit_of_object(entry: Path, other: Path) -> None:
    data = bytearray((entry / "kernel.o").read_bytes())
    data[len(data) // 2] ^= 1
    (entry / "kernel.o").write_bytes(data)


def object_of_another(entry: Path, other: Path) -> None:
    shutil.copy(other / "kernel.o", entry / "kernel.o")


def all_of_another(entry: Path, other: Path) -> None:
    shutil.rmtree(entry)
    shutil.copytree(other, entry)


def report_cut(entry: Path, other: Path) -> None:
    (entry / "report.json").write_bytes((entry / "report.json").read_bytes()[:-10])


def report_of_other_types(entry: Path, other: Path) -> None:
    (entry / "report.json").write_text('["registers"]')


def report_without_a_field(entry: Path, other: Path) -> None:
    data = json.loads((entry / "report.json").read_text())
    del data["tensor_instructions"]
    (entry / "report.json").write_text(json.dumps(data))


ENTRIES = {
    cut_object: "is not as long as its report says",
    bit_of_object: "is not what its report says",
    object_of_another: "its report says",
    all_of_another: "holds the entry of another key",
    report_cut: "is not readable",
    report_of_other_types: "is not readable",
    report_without_a_field: "there is no 'tensor_instructions'",
}


@pytest.mark.parametrize("spoil", ENTRIES, ids=lambda spoil: spoil.__name__)
def test_an_entry_that_is_not_what_was_compiled(
    spoil: Spoil, cache: Store, table: Table, toolchain: NvccToolchain, caplog: pytest.LogCaptureFixture
) -> None:
    plan = build([table], store=cache, toolchain=toolchain, dry_run=True)
    one, two = (cache.root / "objects" / unit.key for unit in plan.units)
    library = library_of(cache, "mini")
    shutil.rmtree(library.parent)
    spoil(one, two)
    with pytest.raises(BuildError, match=ENTRIES[spoil]):
        cache.read_entry(one.name)
    with caplog.at_level(logging.WARNING):
        report = build([table], store=cache, toolchain=toolchain)
    assert report.ok, report.explain_failures()
    assert ENTRIES[spoil] in caplog.text
    assert {unit.name: unit.status for unit in report.units} == {"one": "built", "two": "cached"}
    assert [path.name.split("-", 1)[1] for path in (cache.root / "quarantine").iterdir()] == [one.name]
    loaded = Registry(table.folder.parent).library(table["one"])
    assert [loaded._module.number(name) for name in ("one", "two")] == [4, 5]
