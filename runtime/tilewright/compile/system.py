"""Short commands, and the folders of installed packages."""

from __future__ import annotations

import importlib.util
import os
import select
import shlex
import subprocess
import time
from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import ceil
from pathlib import Path

from tilewright.errors import ToolchainError

KEPT_BYTES = 2 << 20  # of each end of what a command prints; a CUTLASS unit's warnings are some 100 KB
_SHOWN = 400  # characters


@lru_cache
def package_folders(name: str) -> tuple[Path, ...]:
    """The folders of an importable package, without importing it."""
    spec = importlib.util.find_spec(name)
    return tuple(Path(folder) for folder in (spec.submodule_search_locations or ())) if spec else ()


def shell(command: Sequence[str]) -> str:
    """The command as a person would type it."""
    return shlex.join(command)


def run(command: Sequence[str], *, check: bool = True) -> str:
    """The stdout and stderr of a short command. Raises ToolchainError if it cannot run or fails."""
    try:
        status, output = run_bounded(command, timeout=120)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ToolchainError(f"{shell(command)}: {error}") from None
    if check and status != 0:
        raise ToolchainError(f"{shell(command)} exits {status}: {output.strip()[:500]}")
    return output


def run_bounded(
    command: Sequence[str],
    *,
    cwd: Path | None = None,
    environment: Mapping[str, str] | None = None,
    timeout: float | None = None,
) -> tuple[int, str]:
    """Runs a command to its end. Returns its exit status (negative: the signal that killed it), and stdout
    and stderr together.

    At most 2 * KEPT_BYTES of the output are kept, the first and the last. A line between them says how much
    is left out. Raises OSError if the command cannot be started, TimeoutExpired after `timeout` seconds.
    """
    with start(command, cwd, environment) as process:
        assert process.stdout is not None
        deadline = None if timeout is None else time.monotonic() + timeout
        try:
            output = _read_bounded(process.stdout.fileno(), deadline)
            return process.wait(_remaining(deadline)), output.decode(errors="replace")
        except (TimeoutError, subprocess.TimeoutExpired):
            process.kill()
            raise subprocess.TimeoutExpired(command, timeout or 0) from None
        except BaseException:
            process.kill()
            raise


def start(
    command: Sequence[str], cwd: Path | None, environment: Mapping[str, str] | None
) -> subprocess.Popen[bytes]:
    """Starts a command that reads nothing, and whose stdout and stderr are one pipe."""
    return subprocess.Popen(
        command,
        cwd=cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )


def readable(descriptor: int, seconds: float | None) -> bool:
    """Waits until a pipe has bytes or has ended, at most `seconds`; answers whether it has.

    A server may have thousands of open files, and `select.select` takes no descriptor above 1,023.
    """
    pipe = select.poll()
    pipe.register(descriptor, select.POLLIN)
    return bool(pipe.poll(None if seconds is None else ceil(seconds * 1000)))


def _remaining(deadline: float | None) -> float | None:
    return None if deadline is None else max(0.0, deadline - time.monotonic())


def _read_bounded(descriptor: int, deadline: float | None) -> bytes:
    """All until the end, or its two ends. Raises TimeoutError."""
    head, tail, left_out = bytearray(), bytearray(), 0
    while True:
        if not readable(descriptor, _remaining(deadline)):
            raise TimeoutError
        block = os.read(descriptor, 1 << 16)
        room = KEPT_BYTES - len(head)
        head += block[:room]
        tail += block[room:]
        if (excess := len(tail) - KEPT_BYTES) > (KEPT_BYTES if block else 0):  # at times, since it copies
            left_out += excess
            del tail[:excess]
        if not block:
            break
    if left_out:
        head += b"\n... %d bytes are left out ...\n" % left_out
    return bytes(head + tail)


def shortened(line: str) -> str:
    """The line, cut to a length that a person reads."""
    return line if len(line) <= _SHOWN else f"{line[:_SHOWN]}... ({len(line)} characters)"


def tvm_ffi_folder() -> Path:
    """The tvm_ffi package's folder (include/, lib/), found without importing it: that may import torch."""
    folders = package_folders("tvm_ffi")
    if not folders:
        raise ToolchainError("apache-tvm-ffi is not installed", hint="pip install apache-tvm-ffi")
    return folders[0]
