"""The configuration of kernels that move a matrix, which families of such kernels share.

Such a kernel has nothing to choose: layouts, groups and strides are run-time arguments, and it needs no
particular instruction.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from tilewright.configurations.shared import AnyTarget, OwnPdl, ThreadsFacts, flag, named, spelt

THREADS = 256  # of a thread block; every generated file asserts it against kernel.hpp


@dataclass(frozen=True, slots=True)
class MoverConfig:
    """Everything that is decided when such a kernel is compiled."""

    arch: Annotated[AnyTarget, "architecture the kernel is compiled for"]
    pdl: OwnPdl = True


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
