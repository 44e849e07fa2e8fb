"""What a person sees of a build."""

from __future__ import annotations

import io

from tilewright.build.progress import Lines, Terminal, progress_for


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_file_gets_plain_lines() -> None:
    stream = io.StringIO()
    progress = progress_for(stream)
    assert type(progress) is Lines
    progress.start(2, 4)
    progress.tick()
    progress.done("a", "built")
    progress.done("b", "failed")
    progress.finish()
    assert stream.getvalue() == ("compiling 2 units, 2 at a time\n[1/2] 0:00 built  a\n[2/2] 0:00 failed b\n")


def test_a_terminal_gets_one_line_that_moves_and_the_failures() -> None:
    stream = Screen()
    progress = progress_for(stream)
    assert type(progress) is Terminal
    progress.start(3, 2)
    progress.done("a", "built")
    progress.done("b", "failed")
    progress.tick()
    progress.finish()
    text = stream.getvalue()
    assert "[2/3] 0:00 failed b\n" in text
    assert "built  a\n" not in text
    assert "\r\x1b[K[2/3] 0:00 1 running, 1 failed b" in text
    assert text.endswith("\r\x1b[K")
