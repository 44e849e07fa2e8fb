"""What is written of a `transpose_fp8` kernel: its name, summary, table row and template's variables."""

from __future__ import annotations

from typing import Any

from tilewright.configurations.shared import ThreadsFacts, named, spelt
from tilewright.families.transpose_fp8.config import TransposeConfig

_THREADS = 256  # of transpose_fp8/kernel.hpp; every generated file asserts it


def kernel_name(config: TransposeConfig) -> str:
    """See `named`."""
    return named("transpose_fp8", config.arch, "nopdl" * (not config.pdl))


def summary(config: TransposeConfig) -> str:
    """One line for lists."""
    return f"bytes, tiles of 128x128 through shared memory, {_THREADS} threads"


def facts(config: TransposeConfig) -> ThreadsFacts:
    """Derived numbers that the runtime needs."""
    return {"threads": _THREADS}


def build(config: TransposeConfig) -> dict[str, Any]:
    """How the kernel is compiled. It needs no particular instruction."""
    return {"arch": config.arch, "defines": [], "instructions": []}


def variables(config: TransposeConfig) -> dict[str, str]:
    """The template's variables, all of them text."""
    return spelt({"threads": _THREADS, "pdl": config.pdl})
