"""Libraries that are built, as the registry asks for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from tilewright.declarations.table import KernelRecord


class BuiltLibrary(Protocol):
    """The part of `tilewright.compile.library.LibraryRecord` that the registry needs."""

    @property
    def path(self) -> Path: ...

    @property
    def toolchain(self) -> Mapping[str, str]:
        """The toolchain that built it: releases of "nvcc", "host" and "cutlass"."""
        ...

    def holds(self, record: KernelRecord) -> bool:
        """Whether it holds the kernel, compiled from the source that the record names."""
        ...


def built_libraries(module: str) -> Sequence[BuiltLibrary]:
    """The libraries of a module, the newest first."""
    from tilewright.compile import prebuilt  # noqa: PLC0415 (a lookup needs no build)

    return prebuilt.all_libraries(module)
