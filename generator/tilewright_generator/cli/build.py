"""`tilewright build`: compile the committed kernels, check their machine code, link their libraries."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tilewright.base.spelling import did_you_mean
from tilewright.tools.filters import taken, why_none
from tilewright_generator.cli import answers, common, completion
from tilewright_generator.cli.output_files import OutputFile, force_option
from tilewright_generator.cli.ray_options import ray_options
from tilewright_generator.cli.verbosity import note, quiet
from tilewright_generator.errors import DriftError, UsageError
from tilewright_generator.plurals import counted
from tilewright_generator.project import Project, of_family

if TYPE_CHECKING:
    from tilewright.compile.planning import Select
    from tilewright.compile.report import BuildReport
    from tilewright.compile.toolchain import HostToolchain
    from tilewright.declarations.table import Table

_TABLE_ROWS = 200  # a longer table is for the report's file


@click.command()
@click.argument(
    "modules", nargs=-1, metavar="[MODULE]...", shell_complete=completion.complete(completion.modules)
)
@common.filter_option
@common.nvcc_option
@common.cutlass_option
@common.jobs_option
@click.option(
    "--launcher",
    metavar="CMD",
    help="A compiler cache to put before nvcc, such as ccache. Default: $TILEWRIGHT_LAUNCHER.",
)
@click.option(
    "--strict",
    is_flag=True,
    help="Also fail on register spills, stack frames, serialised wgmma (C7510) and races.",
)
@click.option(
    "--report",
    "report_file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write the report as JSON.",
)
@force_option
@answers.json_option
@click.option("--dry-run", is_flag=True, help="Say what would be compiled; write nothing but the report.")
@ray_options("Compile as tasks of Ray, then link here.")
@common.cache_option
@common.root_option
@common.shipped_option
def command(
    *,
    modules: tuple[str, ...],
    filters: tuple[str, ...],
    nvcc: Path | None,
    cutlass: Path | None,
    jobs: int | None,
    launcher: str | None,
    strict: bool,
    report_file: Path | None,
    force: bool,
    as_json: bool,
    dry_run: bool,
    ray: bool,
    ray_address: str | None,
    cache: Path | None,
    root: Path | None,
    shipped: bool,
) -> None:
    """Compile kernels, check their machine code and link each MODULE's library (default: all modules).

    Kernels that are built already are not built again; a build that was killed goes on where it stopped.
    Exits 1 if a kernel fails to compile or runs on the wrong instructions. Kernels that need CUTLASS
    headers, or newer ones than are installed, are skipped and listed; exits 2 if all selected kernels are
    skipped.
    """
    from tilewright.compile.building import build  # noqa: PLC0415 (`--help` needs none of this)
    from tilewright.compile.compiler_cache import words_of  # noqa: PLC0415
    from tilewright.compile.compilers import toolchain_for  # noqa: PLC0415
    from tilewright.compile.progress import Progress, progress_for  # noqa: PLC0415
    from tilewright.compile.report import MARK  # noqa: PLC0415
    from tilewright.compile.store import Store  # noqa: PLC0415

    output = None if report_file is None else OutputFile(report_file, MARK, force, "--report")
    if output is not None:
        output.check()
    generated = folder_of(root, shipped)
    note(f"kernels of {generated}")
    try:
        tables = tables_of(generated, modules)
        select = selection_of(tables, modules, filters)
    except UsageError as error:
        raise UsageError(error.message + ("" if shipped else _made(root, modules, filters))) from None
    toolchain, store = toolchain_for(tables, nvcc=nvcc, cutlass=cutlass), Store(cache)
    words = None if launcher is None else words_of(launcher, "--launcher")
    if (ray or ray_address) and not dry_run:
        _compile_on_ray(ray_address, tables, select, toolchain, store=store, launcher=words)
    report = build(
        tables,
        select,
        toolchain=toolchain,
        store=store,
        jobs=jobs,
        launcher=words,
        strict=strict,
        dry_run=dry_run,
        progress=Progress() if quiet() else progress_for(),
    )
    if output is not None:
        output.write(report.text())
        note(f"wrote {output.path}")
    if as_json:
        answers.print_json(report.to_json())
    else:
        _show(report, dry_run)
    if not report.ok:
        raise DriftError(report.explain_failures())


def folder_of(root: Path | None, shipped: bool) -> Path:
    """The folder of modules: of the project, or of what is asked for instead. Outside of a project there is
    no default, because being in the wrong folder must not compile hundreds of kernels."""
    from tilewright.base import paths, sets  # noqa: PLC0415

    if shipped:
        if root is not None:
            raise UsageError("--shipped and --root name different kernels; give one of them")
        return paths.shipped_generated_dir()
    try:
        return Project.find(root).out
    except UsageError as error:
        if root is not None:
            raise
        if os.environ.get("TILEWRIGHT_GENERATED"):
            return sets.first_folder()
        raise UsageError(f"{error.message}, or --shipped for the kernels that come with tilewright") from None


def _compile_on_ray(
    address: str | None, tables: Sequence[Table], select: Select, toolchain: HostToolchain, **options: Any
) -> None:
    """Fills the cache. What a task could not compile, the build that follows tries here, and says why."""
    from tilewright.tools.sharding import ray_engine  # noqa: PLC0415 (an optional extra)
    from tilewright.tools.sharding.building import compile_shards  # noqa: PLC0415

    engine = ray_engine.connect(address, gpus=0)
    done = 0
    try:
        for answer in compile_shards(engine, tables, select, toolchain=toolchain, **options):
            for name in answer.kernels:
                done += 1
                status = answer.failure or answer.statuses.get(name, "no answer")
                note(f"[{done}] Ray: {status} {name}")
    finally:
        engine.close()


def tables_of(generated: Path, modules: Sequence[str]) -> list[Table]:
    from tilewright.declarations.table import Table, find_tables  # noqa: PLC0415

    tables = {path.parent.name: path for path in find_tables(generated)}
    if not tables:
        raise UsageError(f"{generated} holds no module; run `tilewright generate`")
    for module in modules:
        if module not in tables:
            own = [name for name, path in tables.items() if Table.read(path).family == module]
            hint = (
                of_family(module, own) or did_you_mean(module, tables) or f"; there are: {', '.join(tables)}"
            )
            raise UsageError(f"no module {module!r} in {generated}{hint}")
    return [Table.read(tables[module]) for module in (modules or tables)]


def selection_of(tables: Sequence[Table], modules: Sequence[str], terms: Sequence[str]) -> Select:
    """The kernels that `build` is asked for: by their names, by filters, or, without either, all."""
    names = select_by(tables, terms)
    if names is None:
        return (lambda _: True) if modules else None
    if names.issuperset(glob.strip() for term in terms for glob in term.split(",")):
        return names
    return lambda record: record.name in names


def select_by(tables: Sequence[Table], terms: Sequence[str]) -> frozenset[str] | None:
    """The names the filter takes, or None for all; a filter that takes nothing is an error."""
    if not terms:
        return None
    records = [record for table in tables for record in table.values()]
    names = frozenset(record.name for record in taken(terms, records))
    if not names:
        why = why_none(terms, records)
        raise UsageError(f"no kernel meets --filter {' --filter '.join(terms)}{why}")
    return names


def _made(root: Path | None, modules: Sequence[str], terms: Sequence[str]) -> str:
    """The command to run first, if the project's specs make the kernels but no table lists them."""
    from tilewright.errors import ArgumentError  # noqa: PLC0415

    try:
        common.read(Project.find(root), tuple(map(Path, modules)), tuple(terms))
    except (UsageError, ArgumentError):
        return ""
    return "; the specs make it: run `tilewright generate` first"


def _show(report: BuildReport, dry_run: bool) -> None:
    if dry_run:
        for unit in report.units:
            if unit.status not in ("cached", "skipped"):
                click.echo(f"{unit.status}  {unit.name}")
        missing = report.count("missing")
        _show_skipped(report)
        skipped = f", {report.count('skipped')} skipped" if report.count("skipped") else ""
        click.echo(f"{report.count('cached')} cached, {missing} to compile{skipped}, {report.jobs} at a time")
        return
    if len(report.units) <= _TABLE_ROWS:
        click.echo(report.table())
    for library in report.libraries:
        click.echo(f"{library.module}: {counted(len(library.kernels), 'kernel')} in {library.path}")
    _show_skipped(report)
    statuses = ("built", "shared", "cached", "failed", "skipped")
    counts = ", ".join(f"{report.count(status)} {status}" for status in statuses if report.count(status))
    flagged = sum(bool(unit.findings) for unit in report.units)
    click.echo(f"{counts or 'nothing selected'} in {report.seconds:.1f} s; {flagged} with findings")


def _show_skipped(report: BuildReport) -> None:
    for reason, names in report.skipped().items():
        click.echo(f"skipped {counted(len(names), 'kernel')}: {reason}")
        for name in names:
            click.echo(f"  {name}")
