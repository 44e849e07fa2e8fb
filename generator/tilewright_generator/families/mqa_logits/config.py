"""One `mqa_logits` kernel: logits of queries with a range of keys each, or with the pages of a cache; or the
schedule of the latter.

How the keys of a query block are split over thread blocks is an argument of a launch, as are the size of
pages, and whether logits out of range are cleaned or rows compressed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from tilewright_generator.families.shared import OwnPdl

Arch = Literal["sm_90a", "sm_100f", "sm_120f"]


@dataclass(frozen=True, slots=True)
class MqaLogitsConfig:
    """Everything that is decided when an `mqa_logits` kernel is compiled."""

    arch: Annotated[Arch, "architecture the kernel is compiled for"]
    form: Annotated[
        Literal["ragged", "paged", "schedule"],
        "keys in one piece, of which each query looks at a range; pages of a cache, by a "
        "block table; or which keys of such a cache each thread block is to work on",
    ]
    heads: Annotated[Literal[16, 32, 64], "of a query"] = 64
    head_dim: Annotated[Literal[32, 64, 128], "elements of a head, and of a key"] = 128
    q: Annotated[
        Literal["e4m3", "mxfp4"],
        "queries and keys: FP8, or FP4 with an exponent for each 32 elements, four to a word",
    ] = "e4m3"
    d: Annotated[Literal["f32", "bf16"], "type of the logits"] = "f32"
    mma: Annotated[
        Literal["wgmma", "mma_sync", "block_scaled"],
        "the instruction that multiplies: wgmma is sm_90a's, mma_sync every GPU's, both of FP4 after it is "
        "decoded to BF16; block_scaled takes FP4 and its exponents, and is sm_12x's (emulated on sm_90a)",
    ] = "wgmma"
    queries: Annotated[
        int,
        Field(ge=1, le=16),
        "that share a tile of keys; with their heads they are its columns",
    ] = 4
    pieces: Annotated[
        Literal[1, 2, 4],
        "that a tile's columns are multiplied in, one reduced while the next is at work",
    ] = 2
    warpgroups: Annotated[Literal[1, 2, 3, 4], "that multiply and reduce, a tile of 64 keys each in turn"] = 2
    stages: Annotated[int, Field(ge=2, le=32), "tiles of keys that are loaded ahead"] = 8
    pdl: OwnPdl = True


def columns(config: MqaLogitsConfig) -> int:
    """Of a tile: heads of queries."""
    return config.heads * config.queries
