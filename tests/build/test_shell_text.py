"""Paths and defines that sh would run, or nvcc would misread, are refused before anything is started."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from small_modules import Mini

from tilewright.base import paths
from tilewright.compile.building import build
from tilewright.compile.library import libraries
from tilewright.compile.nvcc.toolchain import NvccToolchain
from tilewright.compile.shell_text import fault
from tilewright.compile.store import Store
from tilewright.errors import BuildError, CacheRefusedError, TableError, ToolchainError

pytestmark = pytest.mark.compile
Launcher = Callable[..., tuple[list[str], Path]]
REFUSED = ["$(touch ran)", "`touch ran`", "$HOME", 'a"b', "a'b", "a\\b", "a#b", "a,b", "a\nb", "a\tb"]


def test_sources(tmp_path: Path, store: Store, toolchain: NvccToolchain, launcher: Launcher) -> None:
    command, notes = launcher()
    for name in REFUSED:
        table = Mini(tmp_path / name).add("one").table()
        report = build([table], store=store, toolchain=toolchain, launcher=command)
        said = f"one: its source, {str(table.folder / 'one.cu')!r}, holds {sign(name)}"
        assert said in report.explain_failures()
        with pytest.raises(BuildError):
            report.raise_for_failures()
    assert not notes.exists()


def test_defines(mini: Mini, store: Store, toolchain: NvccToolchain, launcher: Launcher) -> None:
    command, notes = launcher()
    for name in REFUSED:
        table = mini.add("one", defines=[f"X={name}"]).table()
        report = build([table], store=store, toolchain=toolchain, launcher=command)
        assert f"one: its define, {f'X={name}'!r}, holds {sign(name)}" in report.explain_failures()
    assert not notes.exists()
    assert libraries("mini", store=store) == []


def test_others_of_the_module_are_built(mini: Mini, store: Store, toolchain: NvccToolchain) -> None:
    mini.add("one", defines=["X=$(touch ran)"]).add("three", number=3)
    report = build([mini.table()], store=store, toolchain=toolchain)
    assert [unit.status for unit in report.units] == ["failed", "built"]
    assert set(report.libraries[0].kernels) == {"three"}


def test_an_arch(mini: Mini, store: Store, toolchain: NvccToolchain, launcher: Launcher) -> None:
    command, notes = launcher()
    table = mini.add("one", arch="sm_90a$(touch ran)").table()
    with pytest.raises(TableError, match="expected a target such as sm_90a"):
        build([table], store=store, toolchain=toolchain, launcher=command)
    assert not notes.exists()


@pytest.mark.parametrize("name", REFUSED)
def test_a_cache(name: str, mini: Mini, tmp_path: Path, toolchain: NvccToolchain) -> None:
    table = mini.add("one").table()
    with pytest.raises(CacheRefusedError, match="the build cache's folder"):
        build([table], store=Store(tmp_path / name), toolchain=toolchain)
    assert not (tmp_path / name).exists()
    (tmp_path / name).mkdir()
    (tmp_path / "link").symlink_to(name)  # a compiler asks what its folder is called
    with pytest.raises(CacheRefusedError, match="the build cache's folder"):
        build([table], store=Store(tmp_path / "link"), toolchain=toolchain)


@pytest.mark.parametrize("name", REFUSED)
def test_folders_of_headers_and_the_compilers(
    name: str, mini: Mini, store: Store, tmp_path: Path, toolchain: NvccToolchain
) -> None:
    table = mini.add("one").table()
    (tmp_path / name).symlink_to(paths.include_dir())
    with pytest.raises(ToolchainError, match="the folder of headers, "):
        build([table], store=store, toolchain=toolchain, include=tmp_path / name)
    for what, changed in (
        ("the folder of CUTLASS headers, ", {"cutlass": tmp_path / name}),
        ("the path of nvcc, ", {"nvcc": tmp_path / name}),
        ("a word of the host compiler, ", {"host": (*toolchain.host, f"-DX={name}", "-g")}),
    ):
        with pytest.raises(ToolchainError, match=what):
            build([table], store=store, toolchain=replace(toolchain, **changed))


def test_other_signs_are_fine(tmp_path: Path, toolchain: NvccToolchain) -> None:
    """In all places at once; what has come to be an object shows that nothing was misread."""
    name = "a b;c&d|e<f>(g)*?[h]{i}~!%^=:+@é\u3000"
    include = tmp_path / f"include {name}"
    os.symlink(paths.include_dir(), include)  # noqa: PTH211 (the folder's own name is what counts)
    table = Mini(tmp_path / name).add("one", number=3, defines=["X=(1 << 2) | 3"]).table()
    report = build([table], store=Store(tmp_path / f"cache {name}"), toolchain=toolchain, include=include)
    assert report.ok, report.explain_failures()


def sign(name: str) -> str:
    """How a message names the first that is refused."""
    first = next(character for character in name if fault(character))
    return f"{first!r}" if first.isprintable() else f"the control character {first!r}"
