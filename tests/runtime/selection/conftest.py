"""A project with kernels for an H200, and a folder of tuned files."""

from __future__ import annotations

from pathlib import Path

import pytest
from tuned_entries import DRIVER
from tuned_places import EVERY, Place

from tilewright.architectures import device as devices
from tilewright.architectures.device import H200
from tilewright.base import paths
from tilewright.libraries.registry import Registry
from tilewright.selection.tuned_header import Header


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine's driver is that of the H200 of these tests."""
    monkeypatch.setattr(devices, "driver", lambda: DRIVER)


@pytest.fixture
def generated(tmp_path: Path, table, row) -> Path:
    folder = tmp_path / "project" / "generated"
    rows = [
        row("big", tile=[128, 256, 64]),
        row("split", scheduler="stream_k"),
        row("small", tile=[64, 16, 128], schedule="pingpong", swap_ab=True),
        row("half", a="f16", b="f16", d="f16"),
    ]
    table(folder, "sm90_x", rows)
    return folder


@pytest.fixture
def registry(generated: Path, built) -> Registry:
    return Registry(generated, libraries=lambda module: [built(Path("x.so"))])


@pytest.fixture
def later(tmp_path: Path, table, row, built) -> Registry:
    """The project after a while: a kernel less, and one more."""
    rows = [row("big", tile=[128, 256, 64]), row("half", a="f16", b="f16", d="f16"), row("new")]
    table(tmp_path / "later" / "generated", "sm90_x", rows)
    return Registry(tmp_path / "later" / "generated", libraries=lambda module: [built(Path("x.so"))])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TILEWRIGHT_TUNED", str(tmp_path / "mine"))
    return tmp_path / "mine"


@pytest.fixture
def path(folder: Path) -> Path:
    return paths.tuned_file(folder, H200.name, "gemm")


@pytest.fixture
def header(registry: Registry) -> Header:
    return Header.of(H200, registry, "gemm")


@pytest.fixture
def place(tmp_path: Path, table, row, built, monkeypatch: pytest.MonkeyPatch):
    """Makes a Place, given the kernels that are built."""
    monkeypatch.setenv("TILEWRIGHT_TUNED", str(tmp_path / "tuned"))
    monkeypatch.setenv("TILEWRIGHT_JIT", "1")
    rows = [
        row("big", tile=[128, 256, 64]),
        row("medium", tile=[128, 128, 64], schedule="pingpong"),
        row("small", tile=[64, 32, 128], schedule="pingpong", swap_ab=True),
        row("split", tile=[128, 128, 64], scheduler="stream_k"),
    ]
    table(tmp_path / "project" / "generated", "sm90_x", rows)

    def make(*of: str) -> Place:
        lacking = tuple(name for name in EVERY if name not in of)
        library = built(Path("x.so"), lacking)
        registry = Registry(tmp_path / "project" / "generated", libraries=lambda module: [library])
        return Place(tmp_path / "tuned", registry)

    return make
