"""Kills a command at a chosen moment, with all that it has started; and what programs that do so share."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.lib.machine import describe, record

SIGNALS = (signal.SIGKILL, signal.SIGKILL, signal.SIGKILL, signal.SIGTERM)  # of which one is drawn
_START_SECONDS = 300.0  # for a command to become ready
_POLL_SECONDS = 0.001


@dataclass(frozen=True)
class Killed:
    """How a command ended."""

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
    and to all that it has started, except what has a process group of its own, as ninja's compilers have.
    Raises TimeoutError if it does not become ready."""
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


def files(folder: Path) -> dict[str, bytes]:
    """Every file below a folder, hidden ones too. Left out are temporary files that a running program renames
    before they are read."""
    contents: dict[str, bytes] = {}
    for path in folder.rglob("*"):
        with contextlib.suppress(FileNotFoundError, IsADirectoryError):
            contents[path.relative_to(folder).as_posix()] = path.read_bytes()
    return contents


def compared(copy: Path, clean: Path, code: int, output: str) -> dict[str, Any]:
    """Fields of a row: the exit code of a run on a `copy` of what a kill has left, and whether `copy` then
    equals the folder of an undisturbed run. Removes both folders."""
    equal = files(copy) == files(clean)
    shutil.rmtree(copy)
    shutil.rmtree(clean)
    return {"exit_code": code, "equal": equal, "messages": messages(output, ok=code == 0 and equal)}


def messages(output: str, *, ok: bool) -> list[str]:
    """The last lines of the output of a run that did not do what it should."""
    return [] if ok else output.splitlines()[-5:]


def main(help: str | None, hammer: Callable[[Path, int, int], dict[str, Any]], name: str) -> int:
    """The command line of a program that kills. `hammer` takes a folder, the number of kills and a seed, and
    answers what the record kills_NAME.json holds."""
    parser = argparse.ArgumentParser(description=help, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20, help="number of runs to kill")
    parser.add_argument("--seed", type=int, default=0, help="of the random inputs and moments")
    parser.add_argument("--write", action="store_true", help=f"Write benchmarks/results/kills_{name}.json.")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        result = hammer(Path(folder), options.kills, options.seed)
    print(json.dumps({key: value for key, value in result.items() if key != "rows"}, indent=1))
    if options.write:
        record(f"kills_{name}.json", json.dumps({**result, "machine": describe()}, indent=1) + "\n")
    return 0 if result["ok"] else 1
