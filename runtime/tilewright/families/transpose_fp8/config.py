"""One `transpose_fp8` kernel: bytes whose columns become rows. Groups and strides are run-time arguments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from tilewright.configurations.shared import AnyTarget, OwnPdl, ThreadsFacts


@dataclass(frozen=True, slots=True)
class TransposeConfig:
    """Everything that is decided when a `transpose_fp8` kernel is compiled."""

    arch: Annotated[AnyTarget, "architecture the kernel is compiled for"]
    pdl: OwnPdl = True


CONFIG, FACTS = TransposeConfig, ThreadsFacts
