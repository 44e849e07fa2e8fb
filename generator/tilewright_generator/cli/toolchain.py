"""`tilewright toolchain`: the releases of nvcc and CUTLASS on this machine, and what each would add."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from tilewright_generator.cli import answers, common
from tilewright_generator.cli.verbosity import comment
from tilewright_generator.errors import UsageError
from tilewright_generator.plurals import counted

if TYPE_CHECKING:
    from tilewright.compile.nvcc.releases import Compiler, Headers
    from tilewright.compile.nvcc.toolchain import NvccToolchain
    from tilewright.declarations.table import KernelRecord

    Kernels = Sequence[tuple[str, KernelRecord]]  # with their modules

_TITLES = {"nvcc": "nvcc", "cutlass": "CUTLASS headers"}
_NOT_HERE = "or later: not on this machine"
_WHEELS = 'wheels that hold it: docs/commands.md, "Newer CUTLASS headers"'


class Release(NamedTuple):
    """An nvcc, or CUTLASS's headers: where it is, and what it is good for."""

    release: str
    origin: str
    path: Path | None  # None if it is not on this machine
    used: bool  # by a build
    problem: str = ""  # why a build cannot use it
    architectures: Sequence[int] = ()  # for which the build's nvcc does not compile
    adds: Mapping[str, int] = {}  # kernels that the build skips, by module


@click.command("toolchain")
@click.option("--nvcc", type=click.Path(path_type=Path), help="What a build with this nvcc would use.")
@click.option("--cutlass", type=click.Path(path_type=Path), help="The same with these CUTLASS headers.")
@common.root_option
@click.option(
    "--shipped",
    is_flag=True,
    help="The kernels that come with tilewright. Outside of a project: the default.",
)
@answers.json_option
def command(
    *, nvcc: Path | None, cutlass: Path | None, root: Path | None, shipped: bool, as_json: bool
) -> None:
    """List the releases of nvcc and of CUTLASS's headers that are on this machine.

    Looks at CUDA_HOME, PATH, /usr/local, CUTLASS_PATH and every installed wheel. A star marks what a build
    would use. Below another release stands what it would add: kernels that the build skips now, and
    architectures. Releases of CUTLASS that kernels need and the machine lacks stand last. Exits with 2 if a
    build would find no complete toolchain.
    """
    from tilewright.compile.nvcc import releases  # noqa: PLC0415 (`--help` needs none of this)
    from tilewright.compile.nvcc.toolchain import find_toolchain  # noqa: PLC0415
    from tilewright.errors import ToolchainError  # noqa: PLC0415
    from tilewright_generator.cli.build import folder_of, tables_of  # noqa: PLC0415

    try:
        folder = folder_of(root, shipped)
    except UsageError:
        if root is not None:
            raise
        shipped, folder = True, folder_of(None, True)  # outside of a project; nothing is compiled here
    tables = tables_of(folder, ())
    kernels = [(table.module, record) for table in tables for record in table.values()]
    used: NvccToolchain | None = None
    failure: ToolchainError | None = None
    try:
        used = find_toolchain(nvcc, cutlass)
    except ToolchainError as error:
        failure = error
    answer = {
        "nvcc": _compilers(releases.compilers(), used, kernels),
        "cutlass": _headers(releases.headers(), used, kernels),
    }
    if as_json:
        answers.print_json({tool: [row._asdict() for row in rows] for tool, rows in answer.items()})
    else:
        _show(answer, shipped)
    if failure is not None:
        raise failure


def _compilers(places: Iterable[Compiler], used: NvccToolchain | None, kernels: Kernels) -> list[Release]:
    if used is None:
        return [Release(place.release, place.origin, place.path, False, place.problem) for place in places]
    rows = []
    for place in places:
        codes = place.codes - used.gpu_codes
        adds = Counter(module for module, record in kernels if _code(record) in codes)
        is_used = place.path == used.nvcc
        rows.append(
            Release(place.release, place.origin, place.path, is_used, place.problem, sorted(codes), adds)
        )
    if not any(row.used for row in rows):  # an option names it
        rows.insert(0, Release(used.release, used.nvcc_origin, used.nvcc, True))
    return rows


def _headers(places: Iterable[Headers], used: NvccToolchain | None, kernels: Kernels) -> list[Release]:
    if used is None:
        return [Release(place.release, place.origin, place.include, False) for place in places]
    from tilewright.compile.nvcc.cutlass import satisfies  # noqa: PLC0415 (as above)

    skipped = [
        (module, record) for module, record in kernels if not satisfies(used.cutlass_version, record.cutlass)
    ]
    rows, lacking = [], list(skipped)
    for place in places:
        adds = Counter(module for module, record in skipped if satisfies(place.release, record.cutlass))
        lacking = [kernel for kernel in lacking if not satisfies(place.release, kernel[1].cutlass)]
        is_used = place.include == used.cutlass
        rows.append(Release(place.release, place.origin, place.include, is_used, adds=adds))
    if used.cutlass is not None and not any(row.used for row in rows):  # an option names it
        rows.insert(0, Release(used.cutlass_version, "--cutlass", used.cutlass, True))
    for release in sorted({record.cutlass for _, record in lacking}):
        adds = Counter(module for module, record in lacking if record.cutlass == release)
        rows.append(Release(release, _NOT_HERE, None, False, adds=adds))
    return rows


def _code(record: KernelRecord) -> int:
    """The number of a kernel's target: 100 of sm_100f."""
    return int(record.arch.removeprefix("sm_").rstrip("af"))


def _show(answer: Mapping[str, Sequence[Release]], shipped: bool) -> None:
    for tool, rows in answer.items():
        click.echo(_TITLES[tool])
        if not rows:
            click.echo("    none")
        for row in rows:
            path = "" if row.path is None else f": {row.path}"
            click.echo(f"  {'*' if row.used else ' '} {row.release or '?':10} {row.origin}{path}")
            for line in _remarks(row, f"{'--shipped ' * shipped}--{tool}"):
                click.echo(f"               {line}")
    comment("* what a build would use")


def _remarks(row: Release, option: str) -> Iterator[str]:
    if row.problem:
        yield f"cannot be used: {row.problem}"
        return
    if row.architectures:
        yield f"also compiles for {', '.join(f'sm_{code}' for code in row.architectures)}"
    if count := sum(row.adds.values()):
        modules = ", ".join(f"{module} {kernels}" for module, kernels in sorted(row.adds.items()))
        yield f"adds {counted(count, 'kernel')}: {modules}"
        command = f"tilewright build {' '.join(sorted(row.adds))} {option}"
        yield _WHEELS if row.path is None else f"{command} {shlex.quote(str(row.path))}"
