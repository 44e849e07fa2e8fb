"""ccache and sccache, put before nvcc: what they need so that compiles of one unit are alike."""

from __future__ import annotations

import logging
import os
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tilewright.errors import ToolchainError

log = logging.getLogger("tilewright")

# Every compile has a working directory of its own, which ccache would take for part of the input.
SETTINGS = {"CCACHE_NOHASHDIR": "1"}


def words_of(text: str, name: str) -> list[str]:
    """Splits a command into words as a shell does. Raises ToolchainError, which calls the command `name`, if
    a quote is left open."""
    try:
        return shlex.split(text)
    except ValueError as error:
        raise ToolchainError(f"{name} is {text!r}, which is no command: {error}") from None


def default_launcher() -> list[str]:
    """The command in TILEWRIGHT_LAUNCHER. Raises ToolchainError if it is not a command."""
    return words_of(os.environ.get("TILEWRIGHT_LAUNCHER", ""), "TILEWRIGHT_LAUNCHER")


def prepare(launcher: Sequence[str]) -> None:
    """Raises ToolchainError if the launcher is no program. Starts sccache's server if the launcher is sccache
    and no server runs.

    Otherwise the first compile starts it, with that compile's TMPDIR. The folder is removed when the compile
    ends, and every later compile then fails (sccache 0.16).
    """
    if launcher and shutil.which(launcher[0]) is None:
        raise ToolchainError(
            f"there is no program {launcher[0]} to put before nvcc",
            hint="Install it, or leave out --launcher and TILEWRIGHT_LAUNCHER.",
        )
    if not launcher or Path(launcher[0]).name != "sccache":
        return
    done = subprocess.run(
        [launcher[0], "--start-server"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    log.debug("%s --start-server exits %d: %s", launcher[0], done.returncode, done.stderr.strip())
