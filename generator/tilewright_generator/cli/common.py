"""Common parts of the commands: their options, and reading the specs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import isnan
from pathlib import Path
from typing import Any, TypeVar

import click

from tilewright.architectures.table import ARCHITECTURES
from tilewright.tools.filters import Filter, why_nothing
from tilewright_generator import generation
from tilewright_generator.cli import completion
from tilewright_generator.cli.verbosity import note
from tilewright_generator.errors import UsageError
from tilewright_generator.expand import Expansion
from tilewright_generator.module import selects, value_of
from tilewright_generator.project import Project

Function = TypeVar("Function", bound=Callable[..., Any])

specs_argument = click.argument(
    "specs",
    nargs=-1,
    type=click.Path(path_type=Path),
    metavar="[SPEC | MODULE]...",
    shell_complete=completion.complete(completion.modules),
)


class RealRange(click.FloatRange):
    """A FloatRange that refuses nan, which click takes for a number of every range."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number: float = super().convert(value, param, ctx)
        if isnan(number):
            self.fail(f"{value} is no number", param, ctx)
        return number


root_option = click.option(
    "--root",
    type=click.Path(path_type=Path),
    help="The project's folder. Default: the nearest folder with specs/.",
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
    shell_complete=completion.TERMS,
    help="Only kernels whose name matches a glob, or FIELD=GLOB[,GLOB...]; ~TERM inverts a term. "
    "m_tile, n_tile, k_tile and compiler are fields, too. With several terms, all must hold.",
)
nvcc_option = click.option(
    "--nvcc", type=click.Path(path_type=Path), help="The nvcc to use. Default: CUDA_HOME, PATH, the wheel."
)
cutlass_option = click.option(
    "--cutlass",
    type=click.Path(path_type=Path),
    help="The CUTLASS headers to use. Default: CUTLASS_PATH, the wheel.",
)
jobs_option = click.option(
    "--jobs", "-j", type=click.IntRange(min=1), help="Compilers at once. Default: as cores and memory allow."
)
cache_option = click.option(
    "--cache",
    type=click.Path(path_type=Path, file_okay=False),
    help="The build cache. Default: $TILEWRIGHT_CACHE.",
)
shipped_option = click.option("--shipped", is_flag=True, help="The kernels that come with tilewright.")
# The names of `tilewright.architectures.device.DESCRIBED`, whose import takes longer.
DEVICE = click.Choice(
    [gpu.key for architecture in ARCHITECTURES for gpu in architecture.gpus], case_sensitive=False
)


@dataclass(frozen=True, slots=True)
class Inputs:
    """A project, and its specs expanded."""

    project: Project
    expansions: tuple[Expansion, ...]
    only: Filter
    everything: bool
    """Whether these are all the project's specs."""


def read(project: Project, specs: tuple[Path, ...], filters: tuple[str, ...]) -> Inputs:
    """Read the specs that were named, by their paths or modules, or all of the project's."""
    for path in () if specs else project.ignored_specs():
        note(f"{project.label(path)} is ignored: specs are specs/*.yaml")
    expansions = generation.read(project, project.chosen(specs))
    only = generation.parse_filter(filters, expansions)
    if not any(
        selects(only, expansion.spec.family, kernel)
        for expansion in expansions
        for kernel in expansion.kernels
    ):
        raise UsageError(f"no kernel meets --filter {' --filter '.join(filters)}{_why(filters, expansions)}")
    return Inputs(project, expansions, only, not specs)


def _why(filters: tuple[str, ...], expansions: tuple[Expansion, ...]) -> str:
    kernels = [(expansion.spec.family, kernel) for expansion in expansions for kernel in expansion.kernels]
    return why_nothing(
        filters,
        [kernel.name for _, kernel in kernels],
        lambda field: (
            value_of(family, kernel.config, field)
            for family, kernel in kernels
            if field == "compiler" or hasattr(kernel.config, field)
        ),
    )
