"""What the commands share: their options, and reading the specs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

from tilewright_generator import generation
from tilewright_generator.errors import UsageError
from tilewright_generator.expand import Expansion
from tilewright_generator.filters import Filter
from tilewright_generator.module import selects
from tilewright_generator.project import Project

Function = TypeVar("Function", bound=Callable[..., Any])

specs_argument = click.argument(
    "specs", nargs=-1, type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="[SPEC]..."
)
root_option = click.option(
    "--root",
    type=click.Path(path_type=Path),
    help="The project's folder. Default: the nearest that holds specs/.",
)
out_option = click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Where generated files are. Default: generated/ of the project.",
)
filter_option = click.option(
    "--filter",
    "filters",
    multiple=True,
    metavar="TERM",
    help="Only kernels whose name matches a glob, or FIELD=GLOB[,GLOB...]. Several must all hold.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@dataclass(frozen=True, slots=True)
class Inputs:
    """A project, and its specs expanded."""

    project: Project
    expansions: tuple[Expansion, ...]
    only: Filter
    everything: bool
    """Whether these are all the project's specs."""


def read(root: Path | None, out: Path | None, specs: tuple[Path, ...], filters: tuple[str, ...]) -> Inputs:
    """Read the specs that were named, or all of the project's."""
    project = Project.find(root, out)
    expansions = generation.read(project, specs or project.specs())
    only = generation.parse_filter(filters, expansions)
    if not any(selects(only, kernel) for expansion in expansions for kernel in expansion.kernels):
        raise UsageError(f"no kernel meets --filter {' --filter '.join(filters)}")
    return Inputs(project, expansions, only, not specs)


def counted(number: int, noun: str) -> str:
    """`1 kernel`, `2,000 kernels`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
