"""Kills a command at a chosen moment, with all that it has started."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_START_SECONDS = 300.0  # for a command to become ready
_POLL_SECONDS = 0.001


@dataclass(frozen=True)
class Killed:
    """What became of a command."""

    exit_code: int | None
    """None where it was killed; else it had ended by itself."""
    output: str


def kill(
    command: Sequence[str],
    moment: float,
    *,
    ready: Callable[[], bool] = lambda: True,
    by: signal.Signals = signal.SIGKILL,
    cwd: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> Killed:
    """Starts a command, waits until it is `ready` and `moment` seconds more, and sends the signal `by` to it
    and to all that it has started. Raises TimeoutError if it does not become ready."""
    with subprocess.Popen(
        command,
        cwd=cwd,
        env={**os.environ, **(environment or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    ) as process:
        deadline = time.monotonic() + _START_SECONDS
        try:
            while process.poll() is None and not ready():
                if time.monotonic() > deadline:
                    raise TimeoutError(f"{' '.join(command)} does not get ready")
                time.sleep(_POLL_SECONDS)
            time.sleep(moment)
            ended = process.poll()
        finally:
            with contextlib.suppress(ProcessLookupError):  # it had ended
                os.killpg(process.pid, by)
        output = process.communicate()[0].decode(errors="replace")
    return Killed(ended, output)
