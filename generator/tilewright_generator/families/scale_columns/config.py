"""One `scale_columns` kernel: FP32 scales as TMA reads them. Layouts and groups are run-time arguments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from tilewright_generator.families.shared import OwnPdl

Arch = Literal["sm_90a", "sm_100a", "sm_100f", "sm_103a", "sm_110f", "sm_120a", "sm_120f", "sm_121a"]


@dataclass(frozen=True, slots=True)
class ScaleColumnsConfig:
    """Everything that is decided when a `scale_columns` kernel is compiled."""

    arch: Annotated[Arch, "architecture the kernel is compiled for"]
    pdl: OwnPdl = True
