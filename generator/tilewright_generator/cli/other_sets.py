"""Kernels of sets that have no specs here, for `list --set` and `explain NAME`: what their tables say."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from tilewright.base.spelling import did_you_mean, text
from tilewright.base.tables import table
from tilewright_generator.cli import completion
from tilewright_generator.errors import UsageError
from tilewright_generator.plurals import counted
from tilewright_generator.project import Project
from tilewright_generator.standing import Standing, standings

if TYPE_CHECKING:
    from tilewright.architectures.device import DeviceProperties
    from tilewright.base.sets import KernelSet
    from tilewright.declarations.table import KernelRecord, Table

set_option = click.option(
    "--set",
    "set_name",
    metavar="NAME",
    shell_complete=completion.complete(completion.kernel_sets),
    help="The kernels of this set (docs/own_repository.md): shipped, or the name of an installed one.",
)


class Listed(NamedTuple):
    """A kernel of a table, and what there is of it."""

    table: Table
    record: KernelRecord
    standing: Standing


def project_of(set_name: str | None, root: Path | None) -> Project:
    """The project that a command looks at: a set's folder, or what --root says."""
    from tilewright.base import sets  # noqa: PLC0415 (generating needs no runtime)

    if set_name is None:
        return Project.seen(root)
    if root is not None:
        raise UsageError("--set and --root name different kernels; give one of them")
    in_force = {kernel_set.name: kernel_set for kernel_set in sets.in_force()}
    if set_name not in in_force:
        hint = did_you_mean(set_name, in_force) or f"; there are: {', '.join(in_force)}"
        raise UsageError(f"no kernel set {set_name!r}{hint}")
    generated = in_force[set_name].generated
    return Project(generated.parent, generated)


def name_of(project: Project) -> str:
    """The name of the set that a project's kernels are."""
    from tilewright.base import sets  # noqa: PLC0415

    return sets.named_set(project.out).name


def beside(project: Project) -> Iterator[KernelSet]:
    """The sets whose kernels stand beside a project's."""
    from tilewright.base import sets  # noqa: PLC0415

    yield from sets.beside(project.out)[1:]


def listed(project: Project, terms: tuple[str, ...], device: DeviceProperties | None) -> Iterator[Listed]:
    """The kernels of the tables that meet `--filter`."""
    from tilewright_generator.cli.build import select_by, tables_of  # noqa: PLC0415

    tables = tables_of(project.out, ())
    names = select_by(tables, terms)
    standing_of = standings(project, [table.module for table in tables], device)
    for listing in tables:
        for name in listing:
            if names is None or name in names:
                yield Listed(listing, listing[name], standing_of[name])


def lines(kernels: list[Listed], marks: Callable[[Standing], str]) -> Iterator[str]:
    """The kernels by module."""
    for module in dict.fromkeys(kernel.table.module for kernel in kernels):
        of_module = [kernel for kernel in kernels if kernel.table.module == module]
        yield f"{module}: {counted(len(of_module), 'kernel')}"
        yield from (f"  {marks(kernel.standing)} {kernel.record.name}" for kernel in of_module)


def as_json(kernel: Listed) -> dict[str, Any]:
    standing = kernel.standing
    return {
        "name": kernel.record.name,
        "module": kernel.table.module,
        "family": kernel.table.family,
        "built": standing.built,
        "tuned": standing.tuned,
        "compiled": standing.compiled,
        "run": standing.run,
        "hammered": standing.hammered,
        "config": kernel.record.config,
        "facts": kernel.record.facts,
    }


def explained(name: str, project: Project) -> list[str] | None:
    """What the table of another set says of a kernel; None if the project has it, or if no table lists it."""
    from tilewright.declarations.table import read_tables  # noqa: PLC0415

    if any(name in listing for listing in read_tables(project.out)):
        return None
    for kernel_set in beside(project):
        for listing in read_tables(kernel_set.generated):
            if name in listing:
                record = listing[name]
                fields = [(field, text(value)) for field, value in record.config.items()]
                return [
                    name,
                    f"  of the set {kernel_set.name}: {listing.source(record)}",
                    f"  a kernel of {listing.family} in the module {listing.module}, for {record.arch}",
                    "fields:",
                    *table(fields),
                ]
    return None
