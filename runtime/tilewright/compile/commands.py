"""The compile commands. The flags, which decide the result, are kept apart from the paths, which do not."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tilewright.base import plugins
from tilewright.compile.keys import digest
from tilewright.declarations.table import KernelRecord

if TYPE_CHECKING:  # what lists libraries needs no compiler
    from tilewright.compile.toolchain import Toolchain

OBJECT = "kernel.o"
DEPFILE = "kernel.d"
_OUTPUTS = ("-MD", "-MF", DEPFILE, "-o", OBJECT)
# Else an object holds the names of intermediate files, in which is the number of nvcc's process: no two
# compiles of a source would be equal. Not for launchers, which take nvcc's steps apart and know these names.
_REPRODUCIBLE = ("--objdir-as-tempdir",)

# Of C++17, libstdc++'s <cmath>, which nvcc includes in every unit, has the special functions: read and
# instantiated by cudafe++, cicc and g++, they take 0.2 s, of a lean unit's 1.35. Such units are compiled as
# C++14, in which all of these take `if constexpr` as an extension; nvcc warns of it (2912).
_STANDARDS = {"c++17": ("-std=c++17",), "c++14": ("-std=c++14", "-diag-suppress=2912")}
_KERNEL_FLAGS = (
    "-O3",
    "-DNDEBUG",  # an assert is a function call in device code, and ptxas then serialises wgmma (C7510)
    "--expt-relaxed-constexpr",
    "-Xptxas=-v",
    "-Xcompiler=-fPIC,-fvisibility=hidden",
)
# A table is what the first call of a kernel that is not built waits for: -O2 takes g++ 3.8 s for 2.7, and a
# plan's call 0.02 us less of 0.98 (benchmarks/host/host_calls.py).
_TABLE_FLAGS = ("-std=c++17", "-O1", "-DNDEBUG", "-fPIC", "-fvisibility=hidden")


def kernel_flags(record: KernelRecord) -> tuple[str, ...]:
    """What nvcc is told of a kernel, without paths."""
    compute = record.arch.replace("sm_", "compute_")
    return (
        *_STANDARDS[record.standard],
        *_KERNEL_FLAGS,
        f"-gencode=arch={compute},code={record.arch}",
        *(f"-D{define}" for define in record.defines),
    )


def made_of(record: KernelRecord) -> str:
    """A digest of what a row alone decides of its object: the source and the flags."""
    return digest("made of", record.sha256, *kernel_flags(record))


def kernel_command(
    toolchain: Toolchain, include: Path, source: Path, flags: Sequence[str], launcher: Sequence[str]
) -> list[str]:
    """Compiles `source` to kernel.o in the current folder."""
    host, *host_flags = toolchain.host
    return [
        *launcher,
        str(toolchain.nvcc),
        f"-ccbin={host}",
        *(f"-Xcompiler={flag}" for flag in host_flags),
        *flags,
        *_includes(include),
        f"-I{toolchain.cutlass}",
        *(() if launcher else _REPRODUCIBLE),
        *_OUTPUTS,
        "-c",
        str(source),
    ]


def _includes(include: Path) -> list[str]:
    """Of tilewright's headers, and those of families from outside."""
    return [f"-I{each}" for each in (include, *plugins.folders("include"))]


def table_flags() -> tuple[str, ...]:
    return _TABLE_FLAGS


def table_command(toolchain: Toolchain, include: Path, ffi: Path, source: Path) -> list[str]:
    """Compiles a module's table.cc, which is plain C++, to kernel.o in the current folder."""
    return [
        *toolchain.host,
        *_TABLE_FLAGS,
        *_includes(include),
        f"-isystem{ffi}",
        f"-isystem{toolchain.include}",
        *_OUTPUTS,
        "-c",
        str(source),
    ]


def shell(command: Sequence[str]) -> str:
    """The command as a person would type it."""
    return shlex.join(command)
