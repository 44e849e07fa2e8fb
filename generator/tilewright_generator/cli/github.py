"""Annotations of GitHub Actions: faults that GitHub shows at the line of the file.

They are printed on stderr, beside the usual messages, so that stdout is the same everywhere.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from tilewright_generator.errors import SpecError
from tilewright_generator.project import Project

_MOST = 50  # GitHub shows ten of a step, and keeps 50 of a job

option = click.option(
    "--output",
    type=click.Choice(["text", "github"]),
    help="github: also annotate faults for GitHub Actions. Default: github where GITHUB_ACTIONS is true.",
)


def asked(output: str | None) -> bool:
    """Whether annotations are to be printed."""
    return output == "github" or (output is None and os.environ.get("GITHUB_ACTIONS") == "true")


@contextmanager
def of_specs(project: Project, output: str | None) -> Iterator[None]:
    """Annotates the faults of specs that are raised within."""
    try:
        yield
    except SpecError as error:
        for fault in error.faults[:_MOST] if asked(output) else ():
            position, message = fault
            place = {"line": str(position.line), "col": str(position.column)}
            _print(project.root / position.file, message, place)
        raise


def drift(lines: list[tuple[Path, str]]) -> None:
    """Annotates files that are not what the specs say."""
    for path, message in lines[:_MOST]:
        _print(path, message, {})


def _print(path: Path, message: str, place: dict[str, str]) -> None:
    properties = {"file": _from_workspace(path), **place, "title": "tilewright"}
    listed = ",".join(f"{name}={_escaped(value, ':,')}" for name, value in properties.items())
    click.echo(f"::error {listed}::{_escaped(message)}", err=True)


def _from_workspace(path: Path) -> str:
    """The path from the repository's root, where GitHub looks."""
    root = Path(os.environ.get("GITHUB_WORKSPACE") or Path.cwd()).resolve()
    target = path.resolve()
    return str(target.relative_to(root) if target.is_relative_to(root) else target)


def _escaped(text: str, others: str = "") -> str:
    for character in f"%\r\n{others}":
        text = text.replace(character, f"%{ord(character):02X}")
    return text
