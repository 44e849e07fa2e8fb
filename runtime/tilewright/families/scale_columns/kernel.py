"""The name, summary, table row and template variables of a `scale_columns` kernel."""

from __future__ import annotations

from tilewright.configurations.mover import THREADS, Mover
from tilewright.configurations.shared import flag
from tilewright.configurations.sources import named, spelt
from tilewright.families.scale_columns.config import ScaleColumnsConfig, ScaleColumnsFacts

ATOM_THREADS = 128  # of a thread block; every generated file asserts it against atom_kernel.hpp
STORED_BYTES = 16  # that a thread stores at once

_mover = Mover("scale_columns", "f32 scales into columns of floats, or of words of four exponents")
build = _mover.build


def writes_atoms(config: ScaleColumnsConfig) -> bool:
    """Whether the kernel writes the 128x4 layout."""
    return config.writes == "128x4"


def template(config: ScaleColumnsConfig) -> str:
    """The template that a kernel is rendered from."""
    return f"scale_columns/{'atoms' if writes_atoms(config) else 'kernel'}.cu.j2"


def kernel_name(config: ScaleColumnsConfig) -> str:
    """See `named`."""
    atoms = flag(config.writes, writes_atoms(config))
    return named("scale_columns", config.arch, atoms, flag("nopdl", not config.pdl))


def summary(config: ScaleColumnsConfig) -> str:
    """One line for lists."""
    if not writes_atoms(config):
        return _mover.summary(config)
    return f"f32 scales, or words of four exponents, into bytes of the 128x4 layout, {ATOM_THREADS} threads"


def facts(config: ScaleColumnsConfig) -> ScaleColumnsFacts:
    """Derived numbers that the runtime needs."""
    if not writes_atoms(config):
        return {"threads": THREADS}
    return {"threads": ATOM_THREADS, "alignment": {"out": STORED_BYTES}}


def variables(config: ScaleColumnsConfig) -> dict[str, str]:
    """The template's variables, all of them text."""
    return spelt({"threads": facts(config)["threads"], "pdl": config.pdl})
