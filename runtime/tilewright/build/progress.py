"""Tells a person how a build goes: one line that moves on a terminal, plain lines elsewhere."""

from __future__ import annotations

import shutil
import sys
import time
from typing import Protocol, TextIO


class Progress(Protocol):
    """What a build tells while it runs."""

    def start(self, total: int, parallel: int) -> None: ...

    def done(self, name: str, status: str) -> None: ...

    def tick(self) -> None:
        """Called about twice a second."""

    def message(self, text: str) -> None: ...

    def finish(self) -> None: ...


class Silent:
    """Tells nothing."""

    def start(self, total: int, parallel: int) -> None:
        pass

    def done(self, name: str, status: str) -> None:
        pass

    def tick(self) -> None:
        pass

    def message(self, text: str) -> None:
        pass

    def finish(self) -> None:
        pass


class Lines:
    """A line for each unit as it finishes: for logs, and for a terminal the base of `Terminal`."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._total = self._done = self._parallel = self._failed = 0
        self._started = time.monotonic()

    def start(self, total: int, parallel: int) -> None:
        self._total, self._done, self._failed, self._parallel = total, 0, 0, parallel
        self._started = time.monotonic()
        self.message(f"compiling {total} unit{'s' * (total != 1)}, {min(total, parallel)} at a time")

    def done(self, name: str, status: str) -> None:
        self._done += 1
        self._failed += status == "failed"
        self.message(f"[{min(self._done, self._total)}/{self._total}] {self._elapsed()} {status:6} {name}")

    def tick(self) -> None:
        pass

    def message(self, text: str) -> None:
        print(text, file=self._stream, flush=True)

    def finish(self) -> None:
        pass

    def _elapsed(self) -> str:
        seconds = int(time.monotonic() - self._started)
        return f"{seconds // 60}:{seconds % 60:02d}"


class Terminal(Lines):
    """One line that is rewritten; failures and messages stay above it."""

    _last = ""

    def start(self, total: int, parallel: int) -> None:
        super().start(total, parallel)
        self._draw()

    def done(self, name: str, status: str) -> None:
        self._last = name
        if status == "failed":
            super().done(name, status)
        else:
            self._done += 1
        self._draw()

    def tick(self) -> None:
        self._draw()

    def message(self, text: str) -> None:
        self._erase()
        super().message(text)

    def finish(self) -> None:
        self._erase()

    def _draw(self) -> None:
        left = max(0, self._total - self._done)
        failed = f", {self._failed} failed" if self._failed else ""
        running = f"{min(left, self._parallel)} running{failed}"
        text = f"[{self._done}/{self._total}] {self._elapsed()} {running} {self._last}"
        width = shutil.get_terminal_size().columns - 1
        self._stream.write(f"\r\x1b[K{text[:width]}")
        self._stream.flush()

    def _erase(self) -> None:
        self._stream.write("\r\x1b[K")
        self._stream.flush()


def progress_for(stream: TextIO | None = None) -> Progress:
    """What suits the stream (default: stderr)."""
    stream = sys.stderr if stream is None else stream
    return Terminal(stream) if stream.isatty() else Lines(stream)
