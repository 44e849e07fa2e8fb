"""ccache and sccache, put before nvcc: what they need so that compiles of one unit are alike."""

from __future__ import annotations

import logging
import os
import shlex
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


def start_server(launcher: Sequence[str]) -> None:
    """Starts sccache's server if the launcher is sccache and no server runs.

    Otherwise the first compile starts it, with that compile's TMPDIR. The folder is removed when the compile
    ends, and every later compile then fails (sccache 0.16).
    """
    if not launcher or Path(launcher[0]).name != "sccache":
        return
    try:
        done = subprocess.run(
            [launcher[0], "--start-server"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
    except OSError as error:  # the compiles say so too, each with its command
        log.warning("%s --start-server: %s", launcher[0], error)
        return
    log.debug("%s --start-server exits %d: %s", launcher[0], done.returncode, done.stderr.strip())
