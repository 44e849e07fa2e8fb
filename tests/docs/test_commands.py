"""Commands on the pages: their options are there, and those that only look are run."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from pathlib import Path

import click
import pytest

from tilewright_generator import cli

ROOT = Path(__file__).parents[2]
PAGES = [
    *(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")),
    *sorted((ROOT / "docs").glob("*.md")),
]
_FENCED = re.compile(r"^```.*?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"(?<!`)`(tilewright [a-z][^`]*)`(?!`)")


def commands(page: Path) -> list[str]:
    """The commands that begin with `tilewright COMMAND`, in blocks and in the text."""
    text = page.read_text(encoding="utf-8")
    blocks = "".join(_FENCED.findall(text)).replace("\\\n", " ")
    lines = re.findall(r"^tilewright [a-z].*$", blocks, re.MULTILINE)
    actual = [*lines, *_INLINE.findall(_FENCED.sub("", text))]
    return sorted({written.partition(" #")[0].strip() for written in actual if "..." not in written})


COMMANDS = sorted({written for page in PAGES for written in commands(page)})
LOOKING = [
    written for written in COMMANDS if re.match(r"tilewright explain --problem (?!relu_rows)", written)
]


@pytest.mark.parametrize("line", COMMANDS)
def test_the_command_and_its_options_are_there(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    report = tmp_path / "R.json"  # which an earlier command would have written
    report.touch()
    _, name, *arguments = (str(report) if word == report.name else word for word in shlex.split(line))
    command = cli.tilewright.get_command(click.Context(cli.tilewright), name)
    assert command is not None
    if arguments != ["--help"]:
        command.make_context(name, arguments)


@pytest.mark.parametrize("line", LOOKING)
def test_what_only_looks_is_run(line: str) -> None:
    _, *arguments = shlex.split(line)
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        assert cli.invoke([*arguments, "--root", str(ROOT)]) == 0
    assert "would run" in output.getvalue()


def test_there_are_commands() -> None:
    assert len(COMMANDS) > 40
    assert len(LOOKING) > 3
