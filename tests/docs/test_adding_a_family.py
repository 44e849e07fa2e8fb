"""docs/adding_a_family.md names every file that `tilewright new-family` writes, and runs its commands."""

from __future__ import annotations

import re
from pathlib import Path

from tilewright_generator import scaffold
from tilewright_generator.cli import new_family

NAME = "relu_rows"
PAGE = (Path(__file__).resolve().parents[2] / "docs/adding_a_family.md").read_text(encoding="utf-8")


def test_the_page_says_what_every_file_is_for() -> None:
    table = PAGE.partition("| file | what it says |")[2].partition("\n\n")[0]
    rows = [re.findall(r"`([^`]+)`", line.split("|")[1]) for line in table.splitlines()[2:]]
    texts = " ".join(re.findall(r"`([^`]+)`", table))
    listed = {name.replace("F/", f"tilewright_families/{NAME}/") for row in rows for name in row}
    paths = {*scaffold.files(NAME)}
    assert listed <= paths
    assert all(Path(path).name in texts for path in paths - listed)


def test_the_commands_that_the_command_prints_are_on_the_page() -> None:
    commands = re.findall(r"^  (tilewright \w+|python -m pytest)", new_family.NEXT, re.MULTILINE)
    assert len(commands) == 4
    assert all(f"\n{command}" in PAGE for command in commands)
