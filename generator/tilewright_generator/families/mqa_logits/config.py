"""One `mqa_logits` kernel: logits of queries with a range of keys each, or with the pages of a cache; or the
schedule of the latter.

How the keys of a query block are split over thread blocks is an argument of a launch, as are the size of
pages, and whether logits out of range are cleaned or rows compressed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from tilewright.types import bits
from tilewright_generator.families.shared import BARRIER, OwnPdl

Arch = Literal["sm_90a", "sm_100f", "sm_120f"]
TILE = 64  # keys
_QUERY_STAGES = 2
_ALIGNMENT = 128  # bytes, of where TMA writes


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
        int, Field(ge=1, le=16), "that share a tile of keys; with their heads they are its columns"
    ] = 4
    pieces: Annotated[
        Literal[1, 2, 4], "that a tile's columns are multiplied in, one reduced while the next is at work"
    ] = 2
    run: Annotated[
        int, Field(ge=1, le=16), "tiles of a warpgroup in a row, each begun while the one before is reduced"
    ] = 1
    warpgroups: Annotated[Literal[1, 2, 3, 4], "that multiply and reduce, a tile of 64 keys each in turn"] = 2
    stages: Annotated[int, Field(ge=2, le=32), "tiles of keys that are loaded ahead"] = 8
    pdl: OwnPdl = True


def tiled(config: MqaLogitsConfig) -> bool:
    """Whether it computes logits, tile by tile, and no schedule."""
    return config.form != "schedule"


def columns(config: MqaLogitsConfig) -> int:
    """Of a tile: heads of queries."""
    return config.heads * config.queries


def threads(config: MqaLogitsConfig) -> int:
    """Of a thread block: a warpgroup loads."""
    return (config.warpgroups + 1) * 128 if tiled(config) else 1024


def shared_bytes(config: MqaLogitsConfig) -> int:
    """Bytes of dynamic shared memory of a thread block, as `mqa_logits/kernel.hpp` lays it out (every source
    asserts it): queries with weights and scales, as they are decoded, too; keys with scales; barriers."""
    row, of_each = config.head_dim * bits(config.q) // 8, columns(config)
    weights = -(-of_each * 4 // _ALIGNMENT) * _ALIGNMENT
    decoded = of_each * config.head_dim * 2 * decodes(config)
    queries = of_each * row + weights * (1 if config.q == "e4m3" else 2) + decoded + BARRIER
    keys = TILE * (row + 4) + BARRIER
    return tiled(config) * (_QUERY_STAGES * queries + config.stages * keys)


def decodes(config: MqaLogitsConfig) -> bool:
    """Whether FP4 becomes BF16 before it is multiplied."""
    return config.q == "mxfp4" and config.mma != "block_scaled"


def registers(config: MqaLogitsConfig) -> int:
    """Of a thread: products (with mma.sync, of one piece), weights, and decoded keys."""
    products = columns(config) // 2 // (1 if config.mma == "wgmma" else config.pieces)
    return products + columns(config) // 4 + config.head_dim // 4 * decodes(config)
