"""What a person sees of a build."""

from __future__ import annotations

import errno
import io
import sys

import pytest

from tilewright.compile.progress import Lines, Progress, Terminal, progress_for


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    """Stands where a test puts it."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_a_file_gets_plain_lines() -> None:
    stream = io.StringIO()
    progress = progress_for(stream)
    assert type(progress) is Lines
    progress.start(2, 4)
    progress.tick(["a", "b"])
    progress.done("a", "built")
    progress.done("b", "failed")
    progress.finish()
    assert stream.getvalue() == (
        "compiling 2 units, 2 at a time\n"
        "[1/2] 0:00, about 0:00 to go: built  a\n"
        "[2/2, 1 failed] 0:00: failed b\n"
    )


def test_a_file_gets_a_line_a_minute(clock: Clock) -> None:
    stream = io.StringIO()
    progress = Lines(stream, clock)
    progress.start(4, 4)
    for seconds in (59, 1, 1, 58, 1):
        clock.now += seconds
        progress.tick(["a", "b", "c", "d"])
    progress.done("a", "built")
    clock.now += 60
    progress.tick(["b", "c", "d"])
    assert stream.getvalue().splitlines()[1:] == [
        "[0/4] 1:00: compiling a, b, c and 1 more",
        "[0/4] 2:00: compiling a, b, c and 1 more",
        "[1/4] 2:00, about 6:00 to go: built  a",
        "[1/4] 3:00, about 9:00 to go: compiling b, c, d",
    ]


def test_an_interrupt_says_what_is_kept_and_how_to_go_on(clock: Clock) -> None:
    stream = io.StringIO()
    progress = Lines(stream, clock)
    progress.start(5, 2)
    for name, status in (("a", "built"), ("b", "failed"), ("c", "shared")):
        progress.done(name, status)
    progress.interrupted()
    assert stream.getvalue().splitlines()[-1] == (
        "2 of 5 units are compiled and kept; the same command goes on with the other 3"
    )


def test_hours(clock: Clock) -> None:
    stream = io.StringIO()
    progress = Lines(stream, clock)
    progress.start(3, 1)
    clock.now += 3661
    progress.done("a", "built")
    assert "[1/3] 1:01:01, about 2:02:02 to go: built  a" in stream.getvalue()


def test_a_terminal_gets_one_line_that_moves_and_the_failures(clock: Clock) -> None:
    stream = Screen()
    assert type(progress_for(stream)) is Terminal
    progress = Terminal(stream, clock)
    progress.start(3, 2)
    progress.tick(["a", "b"])
    clock.now += 10
    progress.done("a", "built")
    progress.done("b", "failed")
    progress.tick(["c"])
    progress.finish()
    text = stream.getvalue()
    assert "\r\x1b[K[0/3] 0:00: a, b\r" in text
    assert "[2/3, 1 failed] 0:10, about 0:05 to go: failed b\n" in text
    assert "built  a\n" not in text
    assert "\r\x1b[K[1/3] 0:10, about 0:20 to go: b\r" in text
    assert "\r\x1b[K[2/3, 1 failed] 0:10, about 0:05 to go: c\r" in text
    assert text.endswith("\r\x1b[K")


def test_silence(capsys: pytest.CaptureFixture[str]) -> None:
    progress = Progress()
    progress.start(1, 1)
    progress.tick(["a"])
    progress.done("a", "built")
    progress.interrupted()
    progress.message("x")
    progress.finish()
    assert capsys.readouterr() == ("", "")


def test_a_unit_that_is_tried_again_counts_once() -> None:
    stream = io.StringIO()
    progress = Lines(stream)
    progress.start(1, 2)
    progress.done("a", "failed")
    progress.done("a", "built")
    progress.interrupted()
    assert [line.partition(",")[0] for line in stream.getvalue().splitlines()[1:3]] == ["[1/1", "[1/1"]
    assert stream.getvalue().splitlines()[-1].startswith("1 of 1 units are compiled")


class Pipe(io.StringIO):
    """Nobody reads it."""

    def write(self, text: str) -> int:
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")


def test_a_process_without_stderr_is_told_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = io.StringIO()
    closed.close()
    for stream in (None, closed):
        monkeypatch.setattr(sys, "stderr", stream)
        assert type(progress_for()) is Progress


def test_a_call_goes_on_where_nobody_reads_its_progress() -> None:
    """A command ends instead."""
    with pytest.raises(BrokenPipeError):
        progress_for(Pipe()).start(1, 1)
    progress = progress_for(Pipe(), in_call=True)
    progress.start(1, 1)
    progress.done("a", "built")
    progress.finish()
    stream = io.StringIO()
    progress = progress_for(stream, in_call=True)
    progress.start(1, 1)
    assert stream.getvalue() == "compiling 1 unit, 1 at a time\n"
    stream.close()
    progress.done("a", "built")
