"""`tilewright config`: what programs in C++ are compiled and linked with."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from tilewright_generator.cli import answers, common, completion, running
from tilewright_generator.errors import UsageError
from tilewright_generator.project import Project

_WORDS = ("includes", "cflags", "ldflags", "cmake")


@click.command("config")
@click.option(
    "--includes", is_flag=True, help="The folders of headers, as -I: tilewright's, and those of plugins."
)
@click.option(
    "--cflags", is_flag=True, help="Options for the compiler of a program that loads or links libraries."
)
@click.option("--ldflags", is_flag=True, help="Options for the linker of such a program.")
@click.option("--cmake", is_flag=True, help="Definitions with which find_package(tilewright) works.")
@click.option(
    "--nvccflags",
    metavar="KERNEL",
    shell_complete=completion.complete(completion.kernels),
    help="Options for nvcc, to compile this kernel's source yourself.",
)
@click.option(
    "--library",
    metavar="MODULE",
    shell_complete=completion.complete(completion.modules),
    help="The path of a module's library (the one built last).",
)
@common.root_option
@answers.json_option
def command(
    *,
    includes: bool,
    cflags: bool,
    ldflags: bool,
    cmake: bool,
    nvccflags: str | None,
    library: str | None,
    root: Path | None,
    as_json: bool,
) -> None:
    """Print options for C++ programs that use kernels without Python; several options print one line each.

    \b
    g++ $(tilewright config --cflags) main.cpp $(tilewright config --ldflags)
    cmake -S . -B build $(tilewright config --cmake)     with find_package(tilewright CONFIG)
    nvcc $(tilewright config --nvccflags KERNEL) -c generated/MODULE/KERNEL.cu
    """
    asked = dict(zip(_WORDS, (includes, cflags, ldflags, cmake), strict=True))
    answer = {name: shlex.join(_options(name)) for name, is_asked in asked.items() if is_asked}
    if nvccflags is not None:
        answer["nvccflags"] = shlex.join(_nvcc_options(nvccflags, root))
    if library is not None:
        answer["library"] = str(_library(library, root))
    if not answer:
        raise UsageError(
            f"expected one of {', '.join(f'--{name}' for name in _WORDS)}, --nvccflags, --library"
        )
    if as_json:
        answers.print_json(answer)
    else:
        click.echo("\n".join(answer.values()))


def _options(name: str) -> list[str]:
    from tilewright.base import paths, plugins  # noqa: PLC0415 (`--help` needs no runtime)
    from tilewright.compile import commands  # noqa: PLC0415
    from tilewright.compile.system import tvm_ffi_folder  # noqa: PLC0415

    include = paths.include_dir()
    if name == "includes":
        return commands.includes(include)
    if name == "cflags":
        return ["-std=c++17", *commands.includes(include)]
    ffi = tvm_ffi_folder() / "lib"
    if name == "ldflags":  # no symbol of libtvm_ffi is the program's, but libraries of kernels need it
        loaded = ["-Wl,--no-as-needed", f"-L{ffi}", "-ltvm_ffi", "-Wl,--as-needed", f"-Wl,-rpath,{ffi}"]
        return [*loaded, "-ldl"]
    definitions = [
        f"-Dtilewright_DIR={include.parent / 'cmake'}",
        f"-DTILEWRIGHT_TVM_FFI={ffi / 'libtvm_ffi.so'}",
    ]
    folders = ":".join(map(str, plugins.folders("include")))
    return [*definitions, f"-DTILEWRIGHT_FAMILY_INCLUDES={folders}"] if folders else definitions


def _nvcc_options(kernel: str, root: Path | None) -> list[str]:
    """The flags of the kernel's row, and the folders of headers that its source includes."""
    from tilewright.base import paths  # noqa: PLC0415
    from tilewright.compile import commands, compilers  # noqa: PLC0415
    from tilewright.compile.nvcc.cutlass import find_cutlass  # noqa: PLC0415
    from tilewright.declarations.table import DEFAULT_COMPILER  # noqa: PLC0415
    from tilewright.errors import NoKernelError  # noqa: PLC0415

    context = running.context_of(None if root is None else str(root))
    try:
        record = context.registry.record(kernel)
    except NoKernelError as error:
        raise UsageError(str(error)) from None
    if record.compiler != DEFAULT_COMPILER:
        raise UsageError(
            f"{kernel} is compiled by {record.compiler}, not by nvcc: `tilewright build` does it"
        )
    cutlass = find_cutlass(None, [])
    folders = commands.includes(paths.include_dir()) + ([] if cutlass is None else [f"-I{cutlass}"])
    return [*compilers.of(record).flags(record), *folders]


def _library(module: str, root: Path | None) -> Path:
    from tilewright.base import paths  # noqa: PLC0415
    from tilewright.base.spelling import did_you_mean  # noqa: PLC0415
    from tilewright.compile import prebuilt  # noqa: PLC0415

    for record in prebuilt.all_libraries(module):
        return record.path
    project = Project.seen(root)
    modules = [path.parent.name for path in project.out.glob("*/table.json")]
    if module not in modules:
        raise UsageError(f"no module {module!r} in {project.out}{did_you_mean(module, modules)}")
    shipped = " --shipped" if project.out == paths.shipped_generated_dir() else ""
    why = "".join(f"; {reason}" for reason in prebuilt.reasons(module))
    command = f"tilewright build {module}{shipped}"
    raise UsageError(f"no library of {module} is built{why}; `{command}` builds all of it")
