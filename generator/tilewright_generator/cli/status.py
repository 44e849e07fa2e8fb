"""`tilewright status`."""

from __future__ import annotations

from pathlib import Path

import click

from tilewright_generator import status
from tilewright_generator.cli import common
from tilewright_generator.errors import UsageError
from tilewright_generator.project import Project
from tilewright_generator.words import counted


@click.command("status")
@common.root_option
@click.option("--write", is_flag=True, help="Write docs/status.md.")
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 if docs/status.md is out of step.")
@click.option(
    "--release", is_flag=True, help="With --check: no row may be stale, whatever stale.json allows."
)
@click.option(
    "--record",
    "report",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="First keep what this report of `tilewright build --report` says, in benchmarks/results/compile/.",
)
def command(*, root: Path | None, write: bool, check: bool, release: bool, report: Path | None) -> int:
    """Say what every kernel has been through: compiled, run on a GPU, and whether that still holds.

    --check also fails where a kernel's last run on a GPU failed, and where more rows are stale than
    benchmarks/results/stale.json allows.
    """
    if write and check:
        raise UsageError("--write and --check exclude each other")
    if release and not check:
        raise UsageError("--release goes with --check")
    project = Project.find(root)
    if report is not None:
        _record(project, report)
    modules = status.verdicts(project)
    path, text = project.root / status.PAGE, status.page(modules)
    in_step = path.is_file() and path.read_bytes() == text.encode()
    if write and not in_step:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="\n")
        click.echo(f"wrote {path}")
    elif check:
        faults = status.faults(project, modules, release=release)
        if not in_step:
            faults.append(f"{path} is out of step; mend it with: tilewright status --write")
        for fault in faults:
            click.echo(fault)
        if faults:
            return 1
        click.echo(f"{path} is as the records say")
    elif write:
        click.echo(f"{path} is as the records say")
    else:
        click.echo(text, nl=False)
    return 0


def _record(project: Project, report: Path) -> None:
    from tilewright.build import records  # noqa: PLC0415 (`--help` needs none of this)

    found = records.read_report(report)
    release, pinned = found["toolchain"]["cutlass"], status.cutlass_version(project)
    keys = records.SourceKeys(status.include(project), release)
    for table in status.tables(project):
        others = records.of_another_release(found, table, pinned)
        if others:
            click.echo(
                f"{table.module}: {counted(len(others), 'kernel')} not recorded: compiled with CUTLASS "
                f"{release}, and the project is pinned to {pinned}"
            )
        rows = records.compile_rows(found, table, keys, leave=others)
        if rows:
            path = project.root / status.COMPILED / f"{table.module}.json"
            records.merge(path, {"toolchain": found["toolchain"]}, rows, table)
            click.echo(f"{path}: {counted(len(rows), 'kernel')} recorded")
