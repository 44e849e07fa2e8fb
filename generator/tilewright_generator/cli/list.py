"""`tilewright list`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from tilewright.base.tables import table, wrapped
from tilewright_generator.cli import answers, common, other_sets
from tilewright_generator.cli.verbosity import quiet
from tilewright_generator.errors import UsageError
from tilewright_generator.expand import Expansion, Kernel
from tilewright_generator.fields import fields_of
from tilewright_generator.module import selects
from tilewright_generator.plurals import counted
from tilewright_generator.project import Project
from tilewright_generator.standing import Standing, standings
from tilewright_generator.status import CURRENT, FAILED, NEVER, STALE

if TYPE_CHECKING:
    from tilewright.architectures.device import DeviceProperties

_WORDS = {CURRENT: "", STALE: "~", FAILED: "!", NEVER: "-"}


class Row(NamedTuple):
    """A kernel, and what there is of it."""

    kernel: Kernel
    standing: Standing


@click.command("list")
@common.specs_argument
@common.root_option
@other_sets.set_option
@common.filter_option
@click.option(
    "--built/--not-built", default=None, help="Only kernels that are built on this machine, or that are not."
)
@click.option("--tuned", is_flag=True, help="Only kernels that are the fastest of a tuned problem.")
@click.option("--verified", is_flag=True, help="Only kernels whose current source was run on a GPU.")
@click.option(
    "--device",
    type=common.DEVICE,
    help="The GPU whose tuned files count. Default: this machine's.",
)
@click.option("--long", "-l", is_flag=True, help="Describe each kernel, in columns.")
@answers.json_option
def command(
    *,
    specs: tuple[Path, ...],
    root: Path | None,
    set_name: str | None,
    filters: tuple[str, ...],
    built: bool | None,
    tuned: bool,
    verified: bool,
    device: str | None,
    long: bool,
    as_json: bool,
) -> None:
    """List the kernels of the specs (default: specs/*.yaml), each with marks: built here, tuned, and, by the
    committed records, compiled, run on a GPU, and hammered there (run thousands of times beside another
    stream, and compared to the bit). Outside of a project, list the kernels that come with tilewright."""
    project = other_sets.project_of(set_name, root)
    gpu = _device(device)
    if tuned and gpu is None:
        raise UsageError("--tuned: there is no GPU here; --device names one")
    if not (project.root / "specs").is_dir():
        of_tables = other_sets.listed(project, filters, gpu)
        kept = [kernel for kernel in of_tables if _wanted(kernel.standing, built, tuned, verified)]
        _show_tables(project, kept, gpu, as_json, _none(built, tuned, verified))
        return
    inputs = common.read(project, specs, filters)
    standing_of = standings(inputs.project, [expansion.spec.module for expansion in inputs.expansions], gpu)
    nothing = Standing(tuned=None if gpu is None else 0)  # of a kernel that is not generated
    listed: list[tuple[Expansion, list[Row]]] = []
    for expansion in inputs.expansions:
        family = expansion.spec.family
        kernels = (kernel for kernel in expansion.kernels if selects(inputs.only, family, kernel))
        rows = [Row(kernel, standing_of.get(kernel.name, nothing)) for kernel in kernels]
        listed.append((expansion, [row for row in rows if _wanted(row.standing, built, tuned, verified)]))
    if as_json:
        kernel_set = {"set": other_sets.name_of(project)}
        answers.print_json([_json(expansion, row) | kernel_set for expansion, rows in listed for row in rows])
        return
    lines = [line for expansion, rows in listed if rows for line in _module(expansion, rows, long)]
    names = [expansion.spec.module for expansion, _ in listed]
    legend = [] if quiet() else [*_legend(gpu, long), *_passed_over(names), *_others(project)]
    if not lines:
        lines, legend = [_none(built, tuned, verified)], [] if quiet() else [*_others(project)]
    click.echo("\n".join([*lines, *legend]))


def _passed_over(modules: Sequence[str]) -> Iterator[str]:
    """The libraries of other packages that cannot be used here, and why."""
    from tilewright.compile import prebuilt  # noqa: PLC0415 (`--help` needs no runtime)

    for module in modules:
        for reason in prebuilt.reasons(module):
            yield from wrapped(f"passed over: {reason}", hanging="  ")


def _others(project: Project) -> Iterator[str]:
    """The sets beside a project's kernels."""
    for kernel_set in other_sets.beside(project):
        yield f"beside them: the set {kernel_set.name} (tilewright list --set {kernel_set.name})"


def _show_tables(
    project: Project, kernels: list[other_sets.Listed], gpu: DeviceProperties | None, as_json: bool, none: str
) -> None:
    """Prints kernels of a set that has no specs here; `none` if there are none."""
    if as_json:
        kernel_set = {"set": other_sets.name_of(project)}
        answers.print_json([other_sets.as_json(kernel) | kernel_set for kernel in kernels])
        return
    modules = [*dict.fromkeys(kernel.table.module for kernel in kernels)]
    legend = [] if quiet() else [*_legend(gpu, False), *_passed_over(modules)]
    lines = [*other_sets.lines(kernels, _marks), *legend]
    click.echo("\n".join(lines) if kernels else none)


def _none(built: bool | None, tuned: bool, verified: bool) -> str:
    """The answer if no kernel is as the options say."""
    states = [
        state
        for state, asked in (("tuned", tuned), ("run on a GPU, by the committed records", verified))
        if asked
    ]
    if built is not None:
        states.insert(0, "built here" if built else "not built here")
    return f"no kernel is {' and '.join(states)}" if states else "no kernels"


def _device(name: str | None) -> DeviceProperties | None:
    from tilewright.architectures import device  # noqa: PLC0415 (`--help` needs no runtime)

    return device.present() if name is None else device.DESCRIBED[name]


def _wanted(standing: Standing, built: bool | None, tuned: bool, verified: bool) -> bool:
    return (
        built in (None, standing.built)
        and (not tuned or bool(standing.tuned))
        and (not verified or standing.verified)
    )


def _module(expansion: Expansion, rows: list[Row], long: bool) -> Iterator[str]:
    rows = sorted(rows, key=lambda row: row.kernel.name)
    counts = _counts([row.standing for row in rows])
    yield from wrapped(f"{expansion.spec.module}: {counted(len(rows), 'kernel')}{counts}")
    if long and expansion.spec.description:
        yield from wrapped(expansion.spec.description, "  ")
    if not long:
        yield from (f"  {_marks(row.standing)} {row.kernel.name}" for row in rows)
        return
    family = expansion.spec.family
    cells: list[tuple[str, ...]] = [("kernel", "built", "tuned", "compiled", "run", "hammered", "")]
    cells += [(row.kernel.name, *_columns(row.standing), family.summary(row.kernel.config)) for row in rows]
    yield from table(cells)


def _counts(rows: Sequence[Standing]) -> str:
    counts = {
        "built": sum(standing.built for standing in rows),
        "tuned": sum(bool(standing.tuned) for standing in rows),
        "compiled": sum(standing.compiled == CURRENT for standing in rows),
        "run": sum(standing.run == CURRENT for standing in rows),
        "hammered": sum(standing.hammered == CURRENT for standing in rows),
        "stale": sum(STALE in (standing.compiled, standing.run, standing.hammered) for standing in rows),
        "failed": sum(FAILED in (standing.run, standing.hammered) for standing in rows),
    }
    return "".join(f", {count} {word}" for word, count in counts.items() if count)


def _marks(standing: Standing) -> str:
    return (
        ("b" if standing.built else "-")
        + ("t" if standing.tuned else "-")
        + (_WORDS[standing.compiled] or "c")
        + (_WORDS[standing.run] or "r")
        + (_WORDS[standing.hammered] or "h")
    )


def _columns(standing: Standing) -> tuple[str, ...]:
    tuned = "?" if standing.tuned is None else str(standing.tuned)
    return ("yes" if standing.built else "no", tuned, standing.compiled, standing.run, standing.hammered)


def _legend(gpu: DeviceProperties | None, long: bool) -> list[str]:
    tuned = "(unknown: no GPU here; --device names one)" if gpu is None else f"for {gpu.name}"
    if long:  # whose columns have words
        return wrapped(f"tuned {tuned}; compiled, run, hammered: by the committed records")
    marks = (
        f"b built here, t tuned {tuned}, c compiled, r run on a GPU, h hammered there "
        "(~ as another source, ! failed, - no)"
    )
    return wrapped(marks)


def _json(expansion: Expansion, row: Row) -> dict[str, Any]:
    kernel, standing = row
    family = expansion.spec.family
    return {
        "name": kernel.name,
        "module": expansion.spec.module,
        "family": family.name,
        "position": str(kernel.group.position),
        "summary": family.summary(kernel.config),
        "built": standing.built,
        "tuned": standing.tuned,
        "compiled": standing.compiled,
        "run": standing.run,
        "hammered": standing.hammered,
        "config": {name: getattr(kernel.config, name) for name in fields_of(family)},
        "facts": family.facts(kernel.config),
    }
