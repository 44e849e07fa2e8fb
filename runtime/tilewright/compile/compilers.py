"""The compilers, and which of them compiles a kernel or a module."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from tilewright.compile.compiler import Compiler
from tilewright.compile.cute_dsl.compiler import CuteDsl
from tilewright.compile.host_compiler import HostCompiler
from tilewright.compile.keys import digest
from tilewright.compile.nvcc.compiler import Nvcc
from tilewright.declarations.table import DEFAULT_COMPILER, KernelRecord, Table

if TYPE_CHECKING:
    from tilewright.compile.toolchain import HostToolchain

COMPILERS: dict[str, Compiler] = {compiler.name: compiler for compiler in (Nvcc(), HostCompiler(), CuteDsl())}
SUFFIXES = tuple(compiler.suffix for compiler in COMPILERS.values())  # of kernels' sources


def of(record: KernelRecord) -> Compiler:
    """The compiler of a kernel."""
    return COMPILERS[record.compiler]


def of_table(table: Table) -> Compiler:
    """The compiler of a module: that of its kernels, which all have the same."""
    return COMPILERS[table.compiler]


def made_of(record: KernelRecord) -> str:
    """A digest of what a row alone decides of its object: the source and the flags."""
    return digest("made of", record.sha256, *of(record).flags(record))


def toolchain_for(tables: Iterable[Table], **programs: str | Path | None) -> HostToolchain:
    """Finds the toolchain that these modules need.

    `programs`: paths by the option of `tilewright build`; None means that the program is looked for. Raises
    ToolchainError if a part is missing.
    """
    paths = {name: path for name, path in programs.items() if path is not None}
    needed = {of_table(table).name for table in tables} or {DEFAULT_COMPILER}
    needed |= {name for name, compiler in COMPILERS.items() if not paths.keys().isdisjoint(compiler.programs)}
    name = next(iter(sorted(needed - {HostCompiler.name})), HostCompiler.name)  # any has the host's, too
    toolchain: HostToolchain = COMPILERS[name].find(**paths)
    return toolchain
