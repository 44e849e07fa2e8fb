"""Kernels that move a matrix: what the generator asks of a family of such kernels.

Such a kernel has nothing to choose: layouts, groups and strides are run-time arguments, and it needs no
particular instruction.
"""

from __future__ import annotations

from typing import Any

from tilewright.configurations.shared import MoverConfig, ThreadsFacts, flag
from tilewright.configurations.sources import named, spelt

THREADS = 256  # of a thread block; every generated file asserts it against kernel.hpp


class Mover:
    """The functions of a family's module `kernel` (`configurations.family.Family`)."""

    def __init__(self, family: str, work: str) -> None:
        self._family = family
        self._work = work

    def kernel_name(self, config: MoverConfig) -> str:
        return named(self._family, config.arch, flag("nopdl", not config.pdl))

    def summary(self, config: MoverConfig) -> str:
        return f"{self._work}, {THREADS} threads"

    def facts(self, config: MoverConfig) -> ThreadsFacts:
        return {"threads": THREADS}

    def build(self, config: MoverConfig) -> dict[str, Any]:
        return {"arch": config.arch, "defines": [], "instructions": []}

    def variables(self, config: MoverConfig) -> dict[str, str]:
        return spelt({"threads": THREADS, "pdl": config.pdl})
