"""`tilewright wheel`: a wheel of built kernels, which is used without a compiler."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tilewright_generator.cli import answers, common, completion
from tilewright_generator.cli.build import folder_of, selection_of, tables_of
from tilewright_generator.cli.verbosity import note, quiet
from tilewright_generator.errors import DriftError, UsageError
from tilewright_generator.plurals import counted

if TYPE_CHECKING:
    from tilewright.declarations.table import Table


@click.command()
@click.argument(
    "modules",
    nargs=-1,
    required=True,
    metavar="MODULE...",
    shell_complete=completion.complete(completion.modules),
)
@common.filter_option
@click.option(
    "--arch",
    metavar="TARGET",
    shell_complete=completion.complete(completion.targets),
    help="Only kernels of a target, such as sm_90a.",
)
@click.option(
    "--output",
    "-o",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(),
    help="The wheel's folder, which is created if needed. Default: here.",
)
@click.option(
    "--name", help="The distribution's name. Default: tilewright-kernels-TARGET, or PROJECT-kernels."
)
@click.option("--version", "release", help="The distribution's version. Default: tilewright's.")
@common.jobs_option
@common.cache_option
@common.root_option
@common.shipped_option
@answers.json_option
def command(
    *,
    modules: tuple[str, ...],
    filters: tuple[str, ...],
    arch: str | None,
    output: Path,
    name: str | None,
    release: str | None,
    jobs: int | None,
    cache: Path | None,
    root: Path | None,
    shipped: bool,
    as_json: bool,
) -> None:
    """Build kernels of MODULEs and pack their libraries into a wheel.

    If the wheel is installed beside tilewright, its kernels run without nvcc, CUTLASS and g++, as long as
    tables, flags and headers are those that they were built from; `tilewright doctor` names the differences.
    Modules that do not come with tilewright go into the wheel with their tables, sources and tuned files.
    """
    from tilewright import __version__  # noqa: PLC0415 (`--help` needs none of this)
    from tilewright.base import writing  # noqa: PLC0415
    from tilewright.compile.building import build  # noqa: PLC0415
    from tilewright.compile.compilers import toolchain_for  # noqa: PLC0415
    from tilewright.compile.progress import Progress, progress_for  # noqa: PLC0415
    from tilewright.compile.store import Store  # noqa: PLC0415
    from tilewright_generator.packaging.kernels_wheel import kernels_wheel  # noqa: PLC0415

    generated = folder_of(root, shipped)
    tables = tables_of(generated, modules)
    select = selection_of(tables, modules, (*filters, *([f"arch={arch}"] if arch else [])))
    name = _named(name or _default_name(generated, tables, arch))
    release = _released(release or __version__)
    toolchain = toolchain_for(tables)
    with tempfile.TemporaryDirectory(prefix="tilewright-wheel-") as place:
        report = build(
            tables,
            select,
            toolchain=toolchain,
            store=Store(cache),
            destination=Store(Path(place)),
            jobs=jobs,
            progress=Progress() if quiet() else progress_for(),
        )
        if not report.ok:
            raise DriftError(report.explain_failures())
        wheel = kernels_wheel(name, release, toolchain.machine, report.libraries, tables)
        content, path = wheel.content(), output / wheel.file_name
        output.mkdir(parents=True, exist_ok=True)
        writing.write(path, content)
    for reason, names in report.skipped().items():
        note(f"skipped {counted(len(names), 'kernel')}: {reason}")
    kernels = {library.module: sorted(library.kernels) for library in report.libraries}
    if as_json:
        answers.print_json({"wheel": str(path), "bytes": len(content), "kernels": kernels})
        return
    for module, names in kernels.items():
        click.echo(f"{module}: {counted(len(names), 'kernel')}")
    click.echo(f"{path}: {len(content) / (1 << 20):.1f} MiB")


def _default_name(generated: Path, tables: list[Table], arch: str | None) -> str:
    from tilewright.base import paths  # noqa: PLC0415

    if generated != paths.shipped_generated_dir():
        return f"{generated.absolute().parent.name}-kernels"
    targets = sorted({table.arch(name) for table in tables for name in table}) if arch is None else [arch]
    return "-".join(["tilewright-kernels", *(target.replace("_", "") for target in targets)])


def _named(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z]([\w.-]*[A-Za-z0-9])?", name, re.ASCII):
        raise UsageError(f"--name {name!r}: expected letters, digits, - and _, a letter first")
    return name


def _released(version: str) -> str:
    """The version as wheels spell it."""
    from packaging.version import InvalidVersion, Version  # noqa: PLC0415

    try:
        return str(Version(version))
    except InvalidVersion:
        raise UsageError(f"--version {version!r}: expected a version as pip reads it, such as 1.2") from None
