"""One `mqa_logits` kernel. How keys are split over thread blocks, how large pages are, and whether logits out
of range are cleaned or rows compressed, a launch says."""

from dataclasses import dataclass
from typing import Annotated, Literal, TypedDict

from tilewright.architectures.table import MMA_SYNC, TCGEN05, WGMMA, TensorCore
from tilewright.configurations.shared import BARRIER, OwnPdl, SharedBytes, Threads
from tilewright.configurations.value_kinds import Bounds
from tilewright.formats.types import bits

TENSOR_TILE, TENSOR_COLUMNS = 128, 512  # keys of a tile of tcgen05; of tensor memory
_QUERY_STAGES = 2
_ALIGNMENT = 128  # bytes, of where TMA writes


def _name(core: TensorCore, operands: str) -> str:
    return core.opcodes[operands].name


_HMMA = _name(MMA_SYNC, "half")
# What multiplies which operands: whose it is, its name in machine code, and of what sm_90a emulates it by.
MULTIPLIERS = {
    ("wgmma", "e4m3"): ("sm_90a", _name(WGMMA, "fp8")),
    ("wgmma", "mxfp4"): ("sm_90a", _name(WGMMA, "half")),
    ("tcgen05", "e4m3"): ("sm_100f", _name(TCGEN05, "fp8"), ""),
    ("tcgen05", "mxfp4"): ("sm_100f", _name(TCGEN05, "mxfp4"), ""),
    ("mma_sync", "e4m3"): ("sm_120f", _name(MMA_SYNC, "fp8"), _HMMA),
    ("block_scaled", "mxfp4"): ("sm_120f", _name(MMA_SYNC, "mxfp4"), _HMMA),
}
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
        Literal["wgmma", "tcgen05", "mma_sync", "block_scaled"],
        "what multiplies: wgmma is sm_90a's (FP4 is decoded to BF16), tcgen05 sm_100f's, mma_sync sm_12x's, "
        "block_scaled that of FP4 there; sm_90a emulates those of others, to test the kernels",
    ] = "wgmma"
    queries: Annotated[_Few, "that share a tile of keys; with their heads they are its columns"] = 4
    pieces: Annotated[Literal[1, 2, 4], "of a tile's columns, one reduced while the next is multiplied"] = 2
    run: Annotated[_Few, "tiles of a warpgroup in a row, each begun while the one before is reduced"] = 1
    warpgroups: Annotated[Literal[1, 2, 3, 4], "that multiply and reduce, a tile of keys each in turn"] = 2
    stages: Annotated[int, Bounds(2, 32), "tiles of keys that are loaded ahead"] = 8
    pdl: OwnPdl = True

    @property
    def emulates(self) -> bool:
        return self.arch == "sm_90a" and self.mma != "wgmma"

    @property
    def tiled(self) -> bool:
        return self.form != "schedule"

    @property
    def decodes(self) -> bool:  # FP4 to BF16
        return self.q == "mxfp4" and self.mma == "wgmma"

    @property
    def tile(self) -> int:  # keys
        return TENSOR_TILE if self.mma == "tcgen05" else 64

    @property
    def columns(self) -> int:  # of a tile
        return self.heads * self.queries

    @property
    def tensor(self) -> tuple[int, int]:
        """Tiles of products in tensor memory, as many for each warpgroup, and the columns that they take; of
        FP4 with words of 128 keys each, and of the queries."""
        words, least = 4 * (self.q == "mxfp4"), self.warpgroups * (self.mma == "tcgen05")
        columns = [n * (self.columns + words) + 2 * words * self.columns // 128 for n in (least, 2 * least)]
        return (2 * least, columns[1]) if columns[1] <= TENSOR_COLUMNS else (least, columns[0])

    @property
    def shared_bytes(self) -> int:
        """Dynamic shared memory, as `loader.hpp` lays it out (every source asserts it): queries with weights
        and scales, as they are decoded, too; keys with scales; barriers. Of tcgen05 barriers of tiles and of
        words in order, where tensor memory begins, and that itself where it is emulated."""
        row, decoded = self.head_dim * bits(self.q) // 8, self.head_dim * 2 * self.decodes
        weights = -(-self.columns * 4 // _ALIGNMENT) * _ALIGNMENT * (1 if self.q == "e4m3" else 2)
        queries = self.columns * (row + decoded) + weights + BARRIER
        total = _QUERY_STAGES * queries + self.stages * (self.tile * (row + 4) + BARRIER)
        if self.mma == "tcgen05":
            (slots, columns), ready = self.tensor, (_QUERY_STAGES + self.stages) * BARRIER // 2
            total += (slots + 1) * BARRIER + ready * (self.q == "mxfp4") + 512 * columns * self.emulates
        return self.tiled * total

    @property
    def registers(self) -> int:
        """Of a thread: products (with mma.sync, of one piece), weights, and decoded keys."""
        if self.mma == "tcgen05":  # a weight for each column, and two pieces of products
            return self.columns + 2 * min(self.heads, 32)
        products = self.columns // 2 // (1 if self.mma == "wgmma" else self.pieces)
        return products + self.columns // 4 + self.head_dim // 4 * self.decodes


class MqaLogitsFacts(TypedDict):
    """Derived numbers that the runtime needs."""

    smem_bytes: SharedBytes
    threads: Threads


CONFIG, FACTS = MqaLogitsConfig, MqaLogitsFacts
