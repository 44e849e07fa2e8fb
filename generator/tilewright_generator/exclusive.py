"""Lets one process at a time change an output directory. SIGTERM leaves nothing half done there."""

from __future__ import annotations

import fcntl
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import NoReturn

from tilewright.base import writing
from tilewright_generator.apply import remove_leftovers

LOCK = ".tilewright.lock"
# Service managers and closing terminals end a process by these; SIGINT (Ctrl-C) raises in Python already.
_ENDING = (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def exclusive(folder: Path, waiting: Callable[[], None]) -> Iterator[None]:
    """While this is held, no other process holds it for `folder`; `waiting` is called if another one does.

    The folder is made if need be, and removed again if it stays empty. A link in the place of the lock is an
    UnwritableFileError. SIGTERM and SIGHUP end the process with 128 and their number, after what is held has
    been let go.
    """
    with _signals_unwind(), ExitStack() as stack:
        descriptor = _lock(folder, waiting)
        if descriptor is not None:
            stack.callback(_release, folder, descriptor)
            remove_leftovers(folder)
        yield


def _lock(folder: Path, waiting: Callable[[], None]) -> int | None:
    """A descriptor of the locked file; None if no lock is possible.

    A folder that cannot be written needs no lock. Some file systems of clusters (Lustre, mounted without
    `flock`) have no locks; processes are not kept apart there.
    """
    path = folder / LOCK
    while True:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        except OSError:
            writing.check(path)
            return None
        try:
            owner = _wait(descriptor, waiting)
            if owner and _is_the_file(descriptor, path):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
        if not owner:
            path.unlink(missing_ok=True)
            return None
        # The one who had it has removed it: another may hold a new one by now.


def _wait(descriptor: int, waiting: Callable[[], None]) -> bool:
    """Lock the file. Answers whether its file system knows locks."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        pass
    except OSError:
        return False
    waiting()
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    return True


def _is_the_file(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _release(folder: Path, descriptor: int) -> None:
    """Removes the file while it is locked, so that no other process locks a file that no longer exists."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, *_ENDING})  # they come afterwards
    try:
        with suppress(OSError):
            (folder / LOCK).unlink()
        os.close(descriptor)
        with suppress(OSError):  # something is in it
            folder.rmdir()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _signals_unwind() -> Iterator[None]:
    """Makes signals that end the process raise SystemExit, so that `finally` blocks run."""
    replaced = []
    if threading.current_thread() is threading.main_thread():
        # One that is ignored (nohup), or that an application handles, is left as it is.
        replaced = [number for number in _ENDING if signal.getsignal(number) is signal.SIG_DFL]
    for number in replaced:
        signal.signal(number, _end)
    try:
        yield
    finally:
        for number in replaced:
            signal.signal(number, signal.SIG_DFL)


def _end(number: int, _: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)
