"""The message and exit code of an error: 2 if a file, a family or the environment is at fault, 3 if
tilewright is."""

from __future__ import annotations

import errno
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

import click

from tilewright.base import plugins

PIPE_CLOSED = 141  # as of a program that SIGPIPE ends
COMPLETE = "_TILEWRIGHT_COMPLETE"  # click's variable, which a shell sets that asks for completions
# A full disk or a limit: of files, of their size, of processes, of memory.
_OF_THE_MACHINE = (
    errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EMFILE, errno.ENFILE, errno.EAGAIN,
    errno.ENOMEM,
)  # fmt: skip
_SHOW = "TILEWRIGHT_DEBUG=1 shows the traceback"


class PipeClosedError(Exception):
    """Nobody reads what a command prints any more."""


class Failure(NamedTuple):
    """How a command ends with an error."""

    code: int
    message: str


def of_system(error: OSError) -> Failure:
    """Names an error of the operating system: the file that it names, else the part of the environment at
    fault."""
    reason = error.strerror or str(error)
    if error.filename is not None:  # something else stands there, or it may not be read or written
        return Failure(2, f"{error.filename}: {reason}")
    if stream := _unwritable_stream(error):
        return Failure(2, f"cannot write to {stream}: {reason}")
    if error.errno == errno.ENOENT and not _has_working_directory():
        return Failure(2, "the working directory has been removed; change to another")
    if error.errno in _OF_THE_MACHINE:
        return Failure(2, reason)
    return internal(error)


def of_any(error: Exception) -> Failure:
    """Names any other error. If a family from outside raised it, the message has the place in that family's
    code."""
    if isinstance(error, MemoryError):
        return Failure(2, "there is not enough memory")
    code = getattr(error, "exit_code", 3)  # the runtime's errors carry one too
    if code != 3:
        return Failure(int(code), str(error))
    if os.environ.get(COMPLETE) and _raised_by(error, "shell_completion.py"):
        return Failure(2, f"{COMPLETE} is set, as by a shell that asks for completions; unset it")
    place = _place_in_family(error)
    if place is not None:
        message = error.msg if isinstance(error, SyntaxError) else error
        return Failure(2, f"{place}: {type(error).__name__}: {message}\n{_SHOW}")
    return internal(error)


def internal(error: Exception) -> Failure:
    """A mistake in tilewright."""
    return Failure(3, f"internal error: {type(error).__name__}: {error}\n{_SHOW}; please report it")


def show(failure: Failure) -> int:
    """Prints it on stderr, as click prints its own errors; answers the exit code."""
    return after(partial(click.echo, f"Error: {failure.message}", err=True), failure.code)


def after(message: Callable[[], None], code: int) -> int:
    """Answers the exit code after `message` has printed to stderr, which may be full, too."""
    try:
        message()
    except OSError:
        _drop("stderr")
    return code


@contextmanager
def closed_pipes() -> Iterator[None]:
    """Raises PipeClosedError if nobody reads a pipe any more; click would exit with 1, as for a failed
    check."""
    try:
        yield
    except BrokenPipeError:
        _drop("stdout")
        _drop("stderr")
        raise PipeClosedError from None


def _unwritable_stream(error: OSError) -> str | None:
    """The stream that click could not print to, if that was the failure."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    last = frames[-1] if frames else None
    if last is None or last.f_code is not click.echo.__code__:
        return None
    stream = "stderr" if last.f_locals.get("err") else "stdout"
    _drop(stream)
    return stream


def _drop(stream: str) -> None:
    """Python flushes the stream as it ends, which would fail again."""
    setattr(sys, stream, open(os.devnull, "w"))  # noqa: PTH123, SIM115


def _has_working_directory() -> bool:
    try:
        Path.cwd()
    except FileNotFoundError:
        return False
    return True


def _raised_by(error: Exception, file: str) -> bool:
    return any(Path(frame.filename).name == file for frame in traceback.extract_tb(error.__traceback__))


def _place_in_family(error: Exception) -> str | None:
    """FILE:LINE of the innermost code of a family from outside that an error came through."""
    places = [(frame.filename, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    if isinstance(error, SyntaxError) and error.filename:
        places.append((error.filename, error.lineno))
    homes = [home.resolve() for home in plugins.families().values()]
    for file, line in reversed(places):
        path = Path(file).resolve()
        if any(path.is_relative_to(home) for home in homes):
            return f"{file}:{line}"
    return None
