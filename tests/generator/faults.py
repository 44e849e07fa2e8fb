"""`tilewright` in a forked process, to which something happens at a chosen step on the disk."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

from tilewright_generator import cli

# Python's audit events of all that changes a disk; each comes before its step is done.
_STEPS = {"open", "os.rename", "os.remove", "os.rmdir", "os.mkdir"}
_WRITES = os.O_WRONLY | os.O_RDWR


class Forked:
    """A command in a process of its own, which calls `fault` before its `step`-th change, from 0, in
    `folder`."""

    def __init__(self, arguments: Sequence[str], folder: Path, step: int, fault: Callable[[], None]) -> None:
        self._reads, writes = os.pipe()  # a command for tests says less than fits into a pipe
        self._process = os.fork()
        if self._process:
            os.close(writes)
            return
        code = 70  # of a mistake in here
        # As in a shell's foreground: a background job, or one under nohup, is started with these ignored.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)  # a library may handle it (Ray does)
        try:
            with open(writes, "w", buffering=1) as out, redirect_stdout(out), redirect_stderr(out):  # noqa: PTH123
                sys.addaudithook(_at(folder, step, fault))
                code = cli.invoke(arguments)
        except SystemExit as error:
            code = int(error.code or 0)
        finally:
            os._exit(code)  # the tests' own clean-up is not this process's

    def end(self) -> tuple[int, str]:
        """Waits for it. Its exit code, or the negated signal that killed it; and what it said."""
        with open(self._reads) as said:  # noqa: PTH123
            text = said.read()
        return os.waitstatus_to_exitcode(os.waitpid(self._process, 0)[1]), text


def _at(folder: Path, step: int, fault: Callable[[], None]) -> Callable[[str, tuple[object, ...]], None]:
    steps = 0

    def hook(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal steps
        if event not in _STEPS or not _concerns(folder, event, arguments):
            return
        steps += 1
        if steps == step + 1:
            fault()

    return hook


def _concerns(folder: Path, event: str, arguments: tuple[object, ...]) -> bool:
    path, *_ = arguments
    if not isinstance(path, (str, bytes, os.PathLike)) or not os.fsdecode(path).startswith(str(folder)):
        return False
    return event != "open" or bool(int(arguments[2]) & _WRITES)  # type: ignore[call-overload]
