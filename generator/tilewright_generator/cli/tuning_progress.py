"""How a person sees tuning go: one line that moves on a terminal, plain lines elsewhere."""

from __future__ import annotations

import shutil
import sys
import time
from typing import TYPE_CHECKING, TextIO

from tilewright_generator.cli import verbosity

if TYPE_CHECKING:
    from tilewright.tools.tuning.search import Result

_BAR = 24  # characters


class Lines:
    """A line for each problem; a terminal's is drawn on top of that."""

    def __init__(self, total: int, stream: TextIO) -> None:
        self._stream = stream
        self._total = total
        self._done = 0
        self._started = time.monotonic()

    def begin(self) -> None:
        pass

    def result(self, result: Result) -> None:
        self._done += 1
        if result.tactic is None:
            text = f"no result: {_one_line(result.reason or '')}"
        else:
            text = f"{(result.seconds or 0) * 1e6:.2f} us {result.tactic}{_ahead(result)}{_beside(result)}"
        failed = f", {len(result.failures)} failed" if result.failures else ""
        timed = f"{result.legal} tactics fit, {result.tried} timed with variants{failed}"
        self._told(f"[{self._done}/{self._total}] {result.problem}: {text} ({timed}, {result.elapsed:.1f} s)")
        for failure in result.failures:
            what = "WRONG" if failure.wrong else "failed"
            self.message(f"  {what}: {failure.tactic}: {_one_line(failure.failure or '')}")
        for note in result.notes:
            self.message(f"  {note}")

    def message(self, text: str) -> None:
        print(text, file=self._stream, flush=True)

    def end(self) -> None:
        pass

    def _told(self, text: str) -> None:
        self.message(text)

    def _times(self) -> str:
        """Time taken, and what is left at that rate."""
        taken = time.monotonic() - self._started
        left = f", {_clock(taken / self._done * (self._total - self._done))} to go" if self._done else ""
        return f"{_clock(taken)}{left}"


class Silent(Lines):
    """Says nothing; what failed is in the summary."""

    def message(self, text: str) -> None:
        pass


class Terminal(Lines):
    """A bar with the last result; failures and messages stay above it."""

    _last = ""

    def begin(self) -> None:
        self._draw()

    def message(self, text: str) -> None:
        self._erase()
        super().message(text)
        self._draw()

    def end(self) -> None:
        self._erase()

    def _told(self, text: str) -> None:
        self._last = text.partition("] ")[2]
        self._draw()

    def _draw(self) -> None:
        filled = round(_BAR * self._done / max(1, self._total))
        bar = "#" * filled + "." * (_BAR - filled)
        text = f"[{bar}] {self._done}/{self._total} {self._times()}  {self._last}"
        self._stream.write(f"\r\x1b[K{text[: shutil.get_terminal_size().columns - 1]}")
        self._stream.flush()

    def _erase(self) -> None:
        self._stream.write("\r\x1b[K")
        self._stream.flush()


def progress_for(total: int, stream: TextIO | None = None) -> Lines:
    """The progress display that suits the stream (default: stderr)."""
    if verbosity.quiet():
        return Silent(total, sys.stderr)
    stream = sys.stderr if stream is None else stream
    return Terminal(total, stream) if stream.isatty() else Lines(total, stream)


def _ahead(result: Result) -> str:
    if result.model_seconds is None or not result.seconds:
        return ""
    return f", {result.model_seconds / result.seconds:.3f} times as fast as the model's first"


def _beside(result: Result) -> str:
    """The time of another library, as text."""
    return (
        ""
        if result.peer is None or not result.seconds
        else f", {result.peer / result.seconds:.3f} of its peer"
    )


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def _one_line(text: str) -> str:
    return "; ".join(line.strip() for line in text.splitlines() if line.strip())
