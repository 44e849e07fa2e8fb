"""The compilers that there are, and which one a kernel or a module is compiled by."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from tilewright.compile.compiler import Compiler
from tilewright.compile.host_compiler import HostCompiler
from tilewright.compile.keys import digest
from tilewright.compile.nvcc import Nvcc
from tilewright.declarations.table import KernelRecord, Table

if TYPE_CHECKING:
    from tilewright.compile.toolchain import HostToolchain

COMPILERS: dict[str, Compiler] = {compiler.name: compiler for compiler in (Nvcc(), HostCompiler())}
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


def toolchain_for(
    tables: Iterable[Table], nvcc: str | Path | None = None, cutlass: str | Path | None = None
) -> HostToolchain:
    """The toolchain that these modules need; `nvcc` and `cutlass` as `find_toolchain` takes them.

    Raises ToolchainError where a part of it is missing.
    """
    from tilewright.compile.toolchain import find_host_toolchain, find_toolchain  # noqa: PLC0415

    names = {of_table(table).name for table in tables}
    if names == {HostCompiler.name} and nvcc is None and cutlass is None:
        return find_host_toolchain()
    return find_toolchain(nvcc, cutlass)
