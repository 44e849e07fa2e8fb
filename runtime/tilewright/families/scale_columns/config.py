"""One `scale_columns` kernel: FP32 scales as TMA reads them. Layouts and groups are run-time arguments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from tilewright.configurations.shared import AnyTarget, OwnPdl, ThreadsFacts


@dataclass(frozen=True, slots=True)
class ScaleColumnsConfig:
    """Everything that is decided when a `scale_columns` kernel is compiled."""

    arch: Annotated[AnyTarget, "architecture the kernel is compiled for"]
    pdl: OwnPdl = True


CONFIG, FACTS = ScaleColumnsConfig, ThreadsFacts
