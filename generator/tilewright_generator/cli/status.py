"""`tilewright status`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import click

from tilewright.base import spelling, tables, writing
from tilewright_generator import status
from tilewright_generator.cli import answers, common, other_sets
from tilewright_generator.cli.verbosity import comment, note
from tilewright_generator.errors import UsageError
from tilewright_generator.plurals import counted
from tilewright_generator.project import Project
from tilewright_generator.status import CURRENT, FAILED, HOST, NEVER, RECORDED, STALE, Modules

_ALL = "all"


@click.command("status")
@common.root_option
@other_sets.set_option
@click.option(
    "--check", is_flag=True, help="Exit with 1 if a kernel failed, or if more rows are stale than may be."
)
@click.option(
    "--release", is_flag=True, help="With --check: no row may be stale, whatever stale.json allows."
)
@click.option(
    "--record",
    "report",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="First keep what this report of `tilewright build --report` says, in benchmarks/results/compile/.",
)
@answers.json_option
def command(
    *,
    root: Path | None,
    set_name: str | None,
    check: bool,
    release: bool,
    report: Path | None,
    as_json: bool,
) -> int:
    """Count the kernels that were compiled, run and hammered on a GPU, by module and by target, and name
    those whose rows are stale or failed. `tilewright list` shows the same for each kernel. Outside of a
    project, the kernels that come with tilewright are counted.

    --check fails if a kernel's last run on a GPU failed, or if more is stale than
    benchmarks/results/stale.json allows. A kernel that was never compiled or run is not a fault.
    """
    if release and not check:
        raise UsageError("--release goes with --check; give both")
    if report is not None and set_name is not None:
        raise UsageError("--record goes with a project, not with --set; leave out --set")
    project = Project.find(root) if report is not None else other_sets.project_of(set_name, root)
    for line in () if report is None else _record(project, report):
        (note if as_json else click.echo)(line)
    modules = status.verdicts(project)
    faults = status.faults(project, modules, release=release) if check else []
    if as_json:
        rows = {module: [asdict(verdict) for verdict in verdicts] for module, verdicts in modules}
        answers.print_json({"set": other_sets.name_of(project), "faults": faults, "modules": rows})
    elif faults:
        click.echo("\n".join(faults))
    elif check:
        click.echo(f"no kernel's last run failed, and no more rows are stale than {_bound(release)}")
    else:
        comment(f"kernels of the set {other_sets.name_of(project)}\n")
        click.echo("\n".join(_summary(modules)))
    return 1 if faults else 0


def _bound(release: bool) -> str:
    return "a release allows: none" if release else f"{status.MOST_STALE} allows"


def _summary(modules: Modules) -> Iterator[str]:
    """Counts by module and by target; then the kernels whose rows are stale or failed, and how many have no
    row."""
    verdicts = [verdict for _, rows in modules for verdict in rows]
    targets = sorted({verdict.target for verdict in verdicts}, key=_by_number)
    by_target = [(target, [row for row in verdicts if row.target == target]) for target in targets]
    yield from _counts("module", modules)
    yield ""
    yield from _counts("target", [*by_target, (_ALL, verdicts)])
    yield ""
    for what in RECORDED:
        for word in (STALE, FAILED):
            names = [verdict.name for verdict in verdicts if getattr(verdict, what) == word]
            if names:
                head = f"{what}, {word}: {counted(len(names), 'kernel')}: "
                yield from tables.wrapped(head + spelling.listed(names), hanging="  ")
        if never := sum(getattr(verdict, what) == NEVER for verdict in verdicts):
            yield f"{what}, never: {counted(never, 'kernel')}"
    if hosts := status.stale_hosts(modules):
        head = f"{HOST}, {STALE}: {counted(len(hosts), 'module')}: "
        yield from tables.wrapped(head + spelling.listed(hosts), hanging="  ")
    yield from tables.wrapped(
        "The tables count what holds of the kernels as they are now. stale: a record of another source, "
        "header, flag or CUTLASS release. never: no record, which is no failure. host: kernels that passed "
        "with the host code as it is now; it is stale where a module has none. Each kernel: tilewright list "
        "--long"
    )


def _counts(title: str, groups: Modules) -> list[str]:
    """A table: how many kernels there are, and how many are compiled, run and hammered as they are now, and
    passed with the host code as it is now."""
    columns = (*RECORDED, HOST)
    rows: list[tuple[str, ...]] = [(title, "kernels", *columns)]
    for name, verdicts in groups:
        current = (sum(getattr(verdict, what) == CURRENT for verdict in verdicts) for what in columns)
        rows.append((name, str(len(verdicts)), *map(str, current)))
    return tables.table(rows, indent="")


def _by_number(target: str) -> tuple[int, str]:
    return int("".join(filter(str.isdigit, target)) or 0), target


def _record(project: Project, report: Path) -> Iterator[str]:
    """Keeps what the report says of each module, and says so."""
    from tilewright.compile.source_keys import SourceKeys  # noqa: PLC0415
    from tilewright_generator import records  # noqa: PLC0415 (`--help` needs none of this)

    content = records.read_report(report)
    release, pinned = content["toolchain"]["cutlass"], status.cutlass_version(project)
    keys = SourceKeys(status.include(project), release)
    for table in status.tables(project):
        other_rows = records.of_another_release(content, table, pinned)
        if other_rows:
            yield (
                f"{table.module}: {counted(len(other_rows), 'kernel')} not recorded: compiled with CUTLASS "
                f"{release}, and the project is pinned to {pinned}"
            )
        rows = records.compile_rows(content, table, keys, leave=other_rows)
        if rows:
            path = project.root / status.COMPILED / f"{table.module}.json"
            writing.check(path, project.root)
            records.merge(path, {"toolchain": content["toolchain"]}, rows, table)
            yield (f"{path}: {counted(len(rows), 'kernel')} recorded")
