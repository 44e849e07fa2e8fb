"""The parts of compile commands that all compilers share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tilewright.base import plugins

if TYPE_CHECKING:  # what lists libraries needs no compiler
    from tilewright.compile.compiler import Compiler
    from tilewright.compile.toolchain import HostToolchain

OBJECT = "kernel.o"
DEPFILE = "kernel.d"
OUTPUTS = ("-MD", "-MF", DEPFILE, "-o", OBJECT)


def includes(include: Path) -> list[str]:
    """The options that name the folders of tilewright's headers and of out-of-tree families' headers."""
    return [f"-I{folder}" for folder in (include, *plugins.folders("include"))]


def table_command(
    compiler: Compiler, toolchain: HostToolchain, include: Path, ffi: Path, source: Path
) -> list[str]:
    """Compiles a module's table.cc, which is plain C++, to kernel.o in the current folder."""
    return [
        *toolchain.host,
        *compiler.table_flags(),
        *includes(include),
        *(f"-isystem{folder}" for folder in (ffi, *toolchain.runtime_includes)),
        *OUTPUTS,
        "-c",
        str(source),
    ]
