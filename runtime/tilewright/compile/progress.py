"""Tells a person how a build goes: one line that moves on a terminal, plain lines elsewhere."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol, TextIO

_QUIET_SECONDS = 60  # after which a log gets a line, whatever has happened
_NAMED = 3  # units under way that a line names


class Stream(Protocol):
    """What lines are written to."""

    def write(self, text: str, /) -> object: ...
    def flush(self) -> object: ...


class Progress:
    """The events that a build reports while it runs. This class tells nobody."""

    def start(self, total: int, parallel: int) -> None:
        """Called before the first of `total` units is compiled, `parallel` at a time."""

    def done(self, name: str, status: str) -> None:
        """Called after each unit."""

    def tick(self, running: Sequence[str]) -> None:
        """Called about twice a second, with the names of the units that are being compiled."""

    def message(self, text: str) -> None:
        """Called with a sentence for people."""

    def interrupted(self) -> None:
        """Called where the build ends before its end; `finish` follows."""

    def finish(self) -> None:
        """Called at the end of the build."""


class Lines(Progress):
    """A line for each unit as it finishes, and one a minute where none does: for logs, and for a terminal the
    base of `Terminal`."""

    def __init__(self, stream: Stream | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._clock = clock
        self._total = self._done = self._failed = 0
        self._started = self._said = clock()

    def start(self, total: int, parallel: int) -> None:
        self._total, self._done, self._failed = total, 0, 0
        self._started = self._clock()
        self.message(f"compiling {total} unit{'s' * (total != 1)}, {min(total, parallel)} at a time")

    def done(self, name: str, status: str) -> None:
        self._done += 1
        self._failed += status == "failed"
        self.message(f"{self._count()} {status:6} {name}")

    def tick(self, running: Sequence[str]) -> None:
        if self._clock() - self._said >= _QUIET_SECONDS:
            self.message(f"{self._count()} compiling {_named(running)}")

    def message(self, text: str) -> None:
        self._said = self._clock()
        print(text, file=self._stream, flush=True)

    def interrupted(self) -> None:
        kept = self._done - self._failed
        self.message(
            f"{kept} of {self._total} units are compiled and kept; the same command goes on "
            f"with the other {self._total - kept}"
        )

    def _count(self) -> str:
        """The number of finished units, the elapsed time, and the remaining time if it is known."""
        taken = self._clock() - self._started
        done = min(self._done, self._total)  # what ran out of memory is done twice
        failed = f", {self._failed} failed" if self._failed else ""
        left = self._total - done
        to_go = f", about {_shown(taken / done * left)} to go" if done and left else ""
        return f"[{done}/{self._total}{failed}] {_shown(taken)}{to_go}:"


class Terminal(Lines):
    """One line that is rewritten; failures and messages stay above it."""

    _running: Sequence[str] = ()

    def start(self, total: int, parallel: int) -> None:
        super().start(total, parallel)
        self._draw()

    def done(self, name: str, status: str) -> None:
        self._running = [running for running in self._running if running != name]
        if status == "failed":
            super().done(name, status)
        else:
            self._done += 1
        self._draw()

    def tick(self, running: Sequence[str]) -> None:
        self._running = running
        self._draw()

    def message(self, text: str) -> None:
        self._erase()
        super().message(text)

    def finish(self) -> None:
        self._erase()

    def _draw(self) -> None:
        text = f"{self._count()} {_named(self._running)}"
        width = shutil.get_terminal_size().columns - 1
        self._stream.write(f"\r\x1b[K{text[:width]}")
        self._stream.flush()

    def _erase(self) -> None:
        self._stream.write("\r\x1b[K")
        self._stream.flush()


class _Unread:
    """A stream that may lose its reader: what cannot be written is left out."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> None:
        with suppress(OSError, ValueError):  # ValueError: it is closed
            self._stream.write(text)

    def flush(self) -> None:
        with suppress(OSError, ValueError):
            self._stream.flush()


def progress_for(stream: TextIO | None = None, *, in_call: bool = False) -> Progress:
    """The progress for a stream (default: stderr): one line on a terminal, lines elsewhere; nothing in a
    process without stderr, such as a daemon.

    `in_call`: a call waits for the build, which then goes on if the stream can no longer be written to.
    """
    stream = sys.stderr if stream is None else stream
    if stream is None or stream.closed:
        return Progress()
    written: Stream = _Unread(stream) if in_call else stream
    return Terminal(written) if stream.isatty() else Lines(written)


def _named(running: Sequence[str]) -> str:
    more = f" and {len(running) - _NAMED} more" if len(running) > _NAMED else ""
    return ", ".join(running[:_NAMED]) + more


def _shown(seconds: float) -> str:
    """`0:05`, `1:02:03`."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
