"""What the tests of the build share."""

from __future__ import annotations

import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from small_modules import Mini, toolchain_expected

from tilewright.compile.nvcc.toolchain import NvccToolchain, find_toolchain
from tilewright.compile.store import Store
from tilewright.errors import ToolchainError


@pytest.fixture
def mini(tmp_path: Path) -> Mini:
    return Mini(tmp_path / "generated")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "cache")


@pytest.fixture(scope="session")
def toolchain() -> NvccToolchain:
    """Skips where none may be expected; elsewhere, not finding it is a failure of discovery."""
    try:
        return find_toolchain()
    except ToolchainError as error:
        if toolchain_expected():
            raise
        pytest.skip(f"no toolchain: {error}")


@pytest.fixture
def launcher(tmp_path: Path) -> Callable[..., tuple[list[str], Path]]:
    """Makes a launcher: a script that notes each compile in a file, runs `extra`, then the compiler."""

    def make(extra: str = "") -> tuple[list[str], Path]:
        notes, script = tmp_path / "launches", tmp_path / "launcher"
        last = '"$@"; status=$?; echo "end $$" >> "$NOTES"; exit $status'
        script.write_text(f'#!/bin/sh\nNOTES={notes}\necho "start $$" >> "$NOTES"\n{extra}\n{last}\n')
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
        return [str(script)], notes

    return make
