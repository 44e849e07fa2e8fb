"""One `scale_columns` kernel: its target, and whether it writes columns or the 128x4 layout."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal, TypedDict

from tilewright.configurations.rows import LEFT_OUT
from tilewright.configurations.shared import MoverConfig, Multiple, ThreadsFacts


@dataclass(frozen=True, slots=True)
class ScaleColumnsConfig(MoverConfig):
    """Everything that is decided when a `scale_columns` kernel is compiled."""

    writes: Annotated[
        Literal["columns", "128x4"],
        "columns: floats, or words of four exponents, as TMA reads them. 128x4: the layout of UE8M0 bytes "
        "that block-scaled tensor cores read",
    ] = field(default="columns", metadata=LEFT_OUT)


class OutAlignment(TypedDict):
    """Elements of which the address of the result is a multiple."""

    out: Multiple


class _Aligned(TypedDict, total=False):
    alignment: OutAlignment


class ScaleColumnsFacts(ThreadsFacts, _Aligned):
    """Derived numbers that the runtime needs."""


CONFIG, FACTS = ScaleColumnsConfig, ScaleColumnsFacts
