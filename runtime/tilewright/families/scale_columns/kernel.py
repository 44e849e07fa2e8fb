"""What is written of a `scale_columns` kernel: its name, summary, table row and template's variables."""

from __future__ import annotations

from typing import Any

from tilewright.configurations.shared import ThreadsFacts, named, spelt
from tilewright.families.scale_columns.config import ScaleColumnsConfig

_THREADS = 256  # of scale_columns/kernel.hpp; every generated file asserts it


def kernel_name(config: ScaleColumnsConfig) -> str:
    """See `named`."""
    return named("scale_columns", config.arch, "nopdl" * (not config.pdl))


def summary(config: ScaleColumnsConfig) -> str:
    """One line for lists."""
    return f"f32 scales into columns of floats, or of words of four exponents, {_THREADS} threads"


def facts(config: ScaleColumnsConfig) -> ThreadsFacts:
    """Derived numbers that the runtime needs."""
    return {"threads": _THREADS}


def build(config: ScaleColumnsConfig) -> dict[str, Any]:
    """How the kernel is compiled. It needs no particular instruction."""
    return {"arch": config.arch, "defines": [], "instructions": []}


def variables(config: ScaleColumnsConfig) -> dict[str, str]:
    """The template's variables, all of them text."""
    return spelt({"threads": _THREADS, "pdl": config.pdl})
