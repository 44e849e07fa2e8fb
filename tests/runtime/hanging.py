"""Processes that hang on purpose, and a clock that runs only while one does.

What waits for silence is tested by that clock: however slow the machine, no process that works falls silent,
and one that hangs is given up after a few looks at the clock.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

FOLDER = "TILEWRIGHT_TEST_HANGING"  # an environment variable that workers inherit


def hang() -> None:
    """Never returns."""
    Path(os.environ[FOLDER], str(os.getpid())).touch()
    while True:
        signal.pause()


class Clock:
    """Stands still; each look at it while a process hangs takes a second."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._now = 0.0

    def __call__(self) -> float:
        self._now += any(_lives(int(mark.name)) for mark in self._folder.iterdir())
        return self._now


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True
