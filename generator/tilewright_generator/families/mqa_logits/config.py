"""One `mqa_logits` kernel. How keys are split over thread blocks, how large pages are, and whether logits out
of range are cleaned or rows compressed, a launch says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from tilewright.types import bits
from tilewright_generator.families.shared import BARRIER, OwnPdl
from tilewright_generator.kinds import Bounds

TILE = 64  # keys
_QUERY_STAGES = 2
_ALIGNMENT = 128  # bytes, of where TMA writes
_Few = Annotated[int, Bounds(1, 16)]


@dataclass(frozen=True, slots=True)
class MqaLogitsConfig:
    """Everything that is decided when one is compiled."""

    arch: Annotated[Literal["sm_90a", "sm_100f", "sm_120f"], "architecture the kernel is compiled for"]
    form: Annotated[
        Literal["ragged", "paged", "schedule"],
        "keys in one piece, a range for each query; pages of a cache; or what thread blocks do of pages",
    ]
    heads: Annotated[Literal[16, 32, 64], "of a query"] = 64
    head_dim: Annotated[Literal[32, 64, 128], "elements of a head, and of a key"] = 128
    q: Annotated[Literal["e4m3", "mxfp4"], "queries and keys; FP4 has an exponent for 32 elements"] = "e4m3"
    d: Annotated[Literal["f32", "bf16"], "type of the logits"] = "f32"
    mma: Annotated[
        Literal["wgmma", "mma_sync", "block_scaled"],
        "the instruction that multiplies: wgmma is sm_90a's, mma_sync every GPU's, both of FP4 after it is "
        "decoded to BF16; block_scaled takes FP4 and its exponents, and is sm_12x's (emulated on sm_90a)",
    ] = "wgmma"
    queries: Annotated[_Few, "that share a tile of keys; with their heads they are its columns"] = 4
    pieces: Annotated[Literal[1, 2, 4], "of a tile's columns, one reduced while the next is multiplied"] = 2
    run: Annotated[_Few, "tiles of a warpgroup in a row, each begun while the one before is reduced"] = 1
    warpgroups: Annotated[Literal[1, 2, 3, 4], "that multiply and reduce, a tile of 64 keys each in turn"] = 2
    stages: Annotated[int, Bounds(2, 32), "tiles of keys that are loaded ahead"] = 8
    pdl: OwnPdl = True

    @property
    def tiled(self) -> bool:
        return self.form != "schedule"

    @property
    def decodes(self) -> bool:
        """Whether FP4 becomes BF16 before it is multiplied."""
        return self.q == "mxfp4" and self.mma != "block_scaled"

    @property
    def columns(self) -> int:  # of a tile
        return self.heads * self.queries

    @property
    def shared_bytes(self) -> int:
        """Dynamic shared memory, as `mqa_logits/kernel.hpp` lays it out (every source asserts it):
        queries with weights and scales, as they are decoded, too; keys with scales; barriers."""
        row, decoded = self.head_dim * bits(self.q) // 8, self.head_dim * 2 * self.decodes
        weights = -(-self.columns * 4 // _ALIGNMENT) * _ALIGNMENT * (1 if self.q == "e4m3" else 2)
        queries = self.columns * (row + decoded) + weights + BARRIER
        keys = TILE * (row + 4) + BARRIER
        return self.tiled * (_QUERY_STAGES * queries + self.stages * keys)

    @property
    def registers(self) -> int:
        """Of a thread: products (with mma.sync, of one piece), weights, and decoded keys."""
        products = self.columns // 2 // (1 if self.mma == "wgmma" else self.pieces)
        return products + self.columns // 4 + self.head_dim // 4 * self.decodes
