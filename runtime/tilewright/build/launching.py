"""ccache and sccache, put before nvcc: what they need so that compiles of one unit are alike."""

from __future__ import annotations

import logging
import os
import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path

log = logging.getLogger("tilewright")

# Every compile has a working directory of its own, which ccache would take for part of the input.
SETTINGS = {"CCACHE_NOHASHDIR": "1"}


def default_launcher() -> list[str]:
    """What TILEWRIGHT_LAUNCHER names."""
    return shlex.split(os.environ.get("TILEWRIGHT_LAUNCHER", ""))


def start_server(launcher: Sequence[str]) -> None:
    """Starts sccache's server, if that is the launcher and there is none.

    The first compile would start it with that compile's TMPDIR, which is gone when the compile is over, and
    every later one then fails (sccache 0.16).
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
