"""`tilewright status`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import click

from tilewright import spelling
from tilewright_generator import status, status_page
from tilewright_generator.cli import answers, common
from tilewright_generator.cli.verbosity import note
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
@answers.json_option
def command(
    *, root: Path | None, write: bool, check: bool, release: bool, report: Path | None, as_json: bool
) -> int:
    """Say what every kernel has been through: compiled, run on a GPU, and whether that still holds.

    --check also fails where a kernel's last run on a GPU failed, and where more rows are stale than
    benchmarks/results/stale.json allows.
    """
    if write and check:
        raise UsageError("--write and --check exclude each other")
    if release and not check:
        raise UsageError("--release goes with --check")
    project = Project.find(root)
    for line in () if report is None else _record(project, report):
        (note if as_json else click.echo)(line)
    modules = status.verdicts(project)
    path, text = project.root / status.PAGE, status_page.page(modules)
    in_step = path.is_file() and path.read_bytes() == text.encode()
    faults = status.faults(project, modules, release=release) if check else []
    if write and not in_step:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="\n")
    elif check and not in_step:
        faults.append(f"{path} is out of step; mend it with: tilewright status --write")
    if as_json:
        rows = {module: [asdict(each) for each in found] for module, found in modules}
        answers.print_json({"page": path, "in_step": in_step or write, "faults": faults, "modules": rows})
    elif faults:
        click.echo("\n".join(faults))
    elif write and not in_step:
        click.echo(f"wrote {path}")
    elif write or check:
        click.echo(f"{path} is as the records say")
    else:
        for groups in status_page.groups(modules):
            lines = spelling.table([(name, status_page.sentence(found)) for name, found in groups], indent="")
            click.echo("\n".join([*lines, ""]))
        page = f"{status.PAGE} has each kernel, and so has" if path.is_file() else "of each kernel"
        click.echo(f"{page}: tilewright list --long")
    return 1 if faults else 0


def _record(project: Project, report: Path) -> Iterator[str]:
    """Keeps what the report says of each module, and says so."""
    from tilewright.build import records  # noqa: PLC0415 (`--help` needs none of this)

    found = records.read_report(report)
    release, pinned = found["toolchain"]["cutlass"], status.cutlass_version(project)
    keys = records.SourceKeys(status.include(project), release)
    for table in status.tables(project):
        others = records.of_another_release(found, table, pinned)
        if others:
            yield (
                f"{table.module}: {counted(len(others), 'kernel')} not recorded: compiled with CUTLASS "
                f"{release}, and the project is pinned to {pinned}"
            )
        rows = records.compile_rows(found, table, keys, leave=others)
        if rows:
            path = project.root / status.COMPILED / f"{table.module}.json"
            records.merge(path, {"toolchain": found["toolchain"]}, rows, table)
            yield (f"{path}: {counted(len(rows), 'kernel')} recorded")
