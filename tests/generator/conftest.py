"""A project of its own for each test, with the tiny family; and ways to call the command line."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # the helper modules beside this file

import tiny_family
from command_line import Command, Result

from tilewright_generator import cli


@pytest.fixture
def tilewright(capsys: pytest.CaptureFixture[str]) -> Command:
    """Run a command in this process."""

    def run(*arguments: str | Path) -> Result:
        capsys.readouterr()
        code = cli.invoke([str(argument) for argument in arguments])
        return Result(code, *capsys.readouterr())

    return run


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The root of a project with one spec of the tiny family; the working directory is in it."""
    (tmp_path / "specs").mkdir()
    (tmp_path / "templates" / "tiny").mkdir(parents=True)
    (tmp_path / "specs" / "small.yaml").write_text(tiny_family.SPEC)
    (tmp_path / "templates" / "tiny" / "kernel.cu.j2").write_text(tiny_family.TEMPLATE)
    (tmp_path / "templates" / "tiny" / "table.cc.j2").write_text(tiny_family.TABLE_TEMPLATE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "cache"))  # what this machine's user has built and
    monkeypatch.setenv("TILEWRIGHT_TUNED", "")  # tuned is nothing to a test
    return tmp_path


@pytest.fixture
def tree() -> Callable[[Path], dict[str, tuple[bytes, int]]]:
    """Bytes and modification time of every file below a folder."""

    def read(folder: Path) -> dict[str, tuple[bytes, int]]:
        return {
            path.relative_to(folder).as_posix(): (path.read_bytes(), path.stat().st_mtime_ns)
            for path in folder.rglob("*")
            if path.is_file()
        }

    return read
