"""One `mqa_logits` kernel.

A launch says how keys are split over thread blocks, how large pages are, whether logits out of range are
cleaned, and whether rows are compressed.
"""

from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple, TypedDict

from tilewright.architectures.table import MMA_SYNC, TCGEN05, WGMMA, TensorCore
from tilewright.configurations.shared import BARRIER, OwnPdl, SharedBytes, Threads
from tilewright.configurations.value_kinds import Bounds, OneOf
from tilewright.formats.types import bits

TENSOR_TILE = 128  # keys of a tile that tcgen05 multiplies
TENSOR_COLUMNS = 512  # columns of an SM's tensor memory
_QUERY_STAGES = 2
_ALIGNMENT = 128  # bytes at whose multiples TMA writes to shared memory
EMULATOR = "sm_90a"  # the target whose kernels may emulate the multipliers of others, to test them


class Multiplier(NamedTuple):
    """The instruction that multiplies operands of one type."""

    targets: tuple[str, ...]  # that have the instruction
    opcode: str  # its name in machine code
    emulation: str = ""  # the opcode by which `EMULATOR` emulates it; "": not on tensor cores


def _name(core: TensorCore, operands: str) -> str:
    return core.opcodes[operands].name


_HMMA = _name(MMA_SYNC, "half")
_TCGEN05 = ("sm_100f", "sm_110f")
# By the fields `mma` and `q`.
MULTIPLIERS = {
    ("wgmma", "e4m3"): Multiplier(("sm_90a",), _name(WGMMA, "fp8")),
    ("wgmma", "mxfp4"): Multiplier(("sm_90a",), _name(WGMMA, "half")),
    ("tcgen05", "e4m3"): Multiplier(_TCGEN05, _name(TCGEN05, "fp8")),
    ("tcgen05", "mxfp4"): Multiplier(_TCGEN05, _name(TCGEN05, "mxfp4")),
    ("mma_sync", "e4m3"): Multiplier(("sm_120f",), _name(MMA_SYNC, "fp8"), _HMMA),
    ("block_scaled", "mxfp4"): Multiplier(("sm_120f",), _name(MMA_SYNC, "mxfp4"), _HMMA),
}
_TARGETS = dict.fromkeys(target for multiplier in MULTIPLIERS.values() for target in multiplier.targets)
_Target = Annotated[str, OneOf(tuple(_TARGETS))]
_Few = Annotated[int, Bounds(1, 16)]


@dataclass(frozen=True, slots=True)
class MqaLogitsConfig:
    """Everything that is decided when an `mqa_logits` kernel is compiled."""

    arch: Annotated[_Target, "architecture the kernel is compiled for"]
    form: Annotated[
        Literal["ragged", "paged", "schedule"],
        "ragged: keys in one piece, a range for each query; paged: keys in pages of a cache; schedule: the "
        "tiles of pages that each thread block computes",
    ]
    heads: Annotated[Literal[16, 32, 64], "of a query"] = 64
    head_dim: Annotated[Literal[32, 64, 128], "elements of a head, and of a key"] = 128
    q: Annotated[Literal["e4m3", "mxfp4"], "queries and keys; FP4 has an exponent for 32 elements"] = "e4m3"
    d: Annotated[Literal["f32", "bf16"], "type of the logits"] = "f32"
    mma: Annotated[
        Literal["wgmma", "tcgen05", "mma_sync", "block_scaled"],
        "the instruction that multiplies: sm_90a has wgmma (FP4 is decoded to BF16), sm_100f and sm_110f "
        "tcgen05, sm_12x mma_sync and, for FP4, block_scaled; sm_90a emulates the others, for tests",
    ] = "wgmma"
    queries: Annotated[_Few, "queries that share a tile of keys; their heads are its columns"] = 4
    pieces: Annotated[
        Literal[1, 2, 4], "parts of a tile's columns; one is reduced while the next is multiplied"
    ] = 2
    run: Annotated[
        _Few, "tiles that a warpgroup computes in a row; it begins each while it reduces the previous one"
    ] = 1
    warpgroups: Annotated[
        Literal[1, 2, 3, 4], "warpgroups that multiply and reduce; they take tiles of keys in turn"
    ] = 2
    stages: Annotated[int, Bounds(2, 32), "tiles of keys that are loaded ahead"] = 8
    pdl: OwnPdl = True

    @property
    def emulates(self) -> bool:
        """Whether the kernel emulates another architecture's multiplier."""
        return self.arch == EMULATOR and self.mma != "wgmma"

    @property
    def tiled(self) -> bool:
        """Whether the kernel computes tiles of logits; else it makes a schedule."""
        return self.form != "schedule"

    @property
    def decodes(self) -> bool:
        """Whether the kernel decodes FP4 to BF16 before it multiplies."""
        return self.q == "mxfp4" and self.mma == "wgmma"

    @property
    def tile(self) -> int:
        """Keys of a tile."""
        return TENSOR_TILE if self.mma == "tcgen05" else 64

    @property
    def columns(self) -> int:
        """Columns of a tile."""
        return self.heads * self.queries

    @property
    def tensor(self) -> tuple[int, int]:
        """The tiles of products in tensor memory, and the columns that they occupy; with FP4, also columns
        for the exponents of each tile's 128 keys and of the queries. Each warpgroup has two tiles if they
        fit, else one."""
        if self.mma != "tcgen05":
            return 0, 0
        exponents = 4 if self.q == "mxfp4" else 0
        for tiles in (2 * self.warpgroups, self.warpgroups):
            columns = tiles * (self.columns + exponents) + 2 * exponents * self.columns // 128
            if columns <= TENSOR_COLUMNS:
                break
        return tiles, columns

    @property
    def shared_bytes(self) -> int:
        """Bytes of dynamic shared memory, as `loader.hpp` lays it out (every source asserts it).

        Queries with weights and scales, and with their decoded elements; keys with scales; barriers. For
        tcgen05 also barriers of tiles in tensor memory and of exponents that are in order, the address of
        tensor memory, and tensor memory itself if it is emulated.
        """
        if not self.tiled:
            return 0
        row, decoded = self.head_dim * bits(self.q) // 8, self.head_dim * 2 if self.decodes else 0
        weights = -(-self.columns * 4 // _ALIGNMENT) * _ALIGNMENT * (1 if self.q == "e4m3" else 2)
        queries = self.columns * (row + decoded) + weights + BARRIER
        total = _QUERY_STAGES * queries + self.stages * (self.tile * (row + 4) + BARRIER)
        if self.mma == "tcgen05":
            tiles, columns = self.tensor
            total += (tiles + 1) * BARRIER
            total += (_QUERY_STAGES + self.stages) * BARRIER // 2 if self.q == "mxfp4" else 0
            total += 4 * 128 * columns if self.emulates else 0
        return total

    @property
    def registers(self) -> int:
        """Registers of a thread for products (with mma.sync, those of one piece), weights and decoded
        keys."""
        if self.mma == "tcgen05":  # a weight for each column, and two pieces of products
            return self.columns + 2 * min(self.heads, 32)
        products = self.columns // 2 // (1 if self.mma == "wgmma" else self.pieces)
        return products + self.columns // 4 + (self.head_dim // 4 if self.decodes else 0)


class MqaLogitsFacts(TypedDict):
    """Derived numbers that the runtime needs."""

    smem_bytes: SharedBytes
    threads: Threads


CONFIG, FACTS = MqaLogitsConfig, MqaLogitsFacts
