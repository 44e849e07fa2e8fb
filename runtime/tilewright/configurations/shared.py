"""What several families say alike: fields of configurations, limits of architectures, names, words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal, NamedTuple, Protocol

from tilewright.architectures.table import of_target, targets
from tilewright.configurations.rule import HARDWARE, Rule, cutlass, rule
from tilewright.configurations.shapes import Cluster, Tile
from tilewright.configurations.value_kinds import Bounds, OneOf
from tilewright.formats.types import bits

BARRIER = 16  # bytes of a full and an empty mbarrier
HOPPER_SHARED_MEMORY = of_target("sm_90a").shared_memory.block
# The target of a family whose kernels need nothing that one architecture alone has.
AnyTarget = Annotated[str, OneOf(targets())]

# Elements as CUTLASS has them, whatever scales them.
CUTLASS_TYPES = {
    "bf16": "cutlass::bfloat16_t",
    "f16": "cutlass::half_t",
    "f32": "float",
    "tf32": "float",  # the mainloop rounds f32 to tf32 as it loads
    "s8": "int8_t",
    "s32": "int32_t",
    **dict.fromkeys(("e4m3", "mxfp8"), "cutlass::float_e4m3_t"),
    **dict.fromkeys(("e5m2", "mxfp8_e5m2"), "cutlass::float_e5m2_t"),
    **dict.fromkeys(("nvfp4", "mxfp4"), "cutlass::float_e2m1_t"),
}

OwnTile = Annotated[
    Tile, "tile of one thread block, MxNxK elements; with swap_ab its M is along the caller's n"
]
SwapAB = Annotated[bool, "compute D^T = B^T A^T, so that a small m meets the instruction's fine N"]
ONE_BLOCK = Cluster(1, 1)
Clusters = Annotated[
    Literal["dynamic"] | Cluster, "thread blocks that share their loads, MxN; dynamic: a run-time argument"
]
Stages = Annotated[
    Literal["auto"] | Annotated[int, Bounds(2, 32)],
    "depth of the mainloop's pipeline; auto takes what shared memory holds",
]
Pdl = Annotated[
    bool,
    "programmatic dependent launch: set up while the previous kernel of the stream ends. "
    "Sets both the launch attribute and the compile definition",
]
OwnPdl = Annotated[bool, "programmatic dependent launch: start while the previous kernel of the stream ends"]


class Product(Protocol):
    """A configuration of matrix products."""

    @property
    def a(self) -> str: ...
    @property
    def b(self) -> str: ...
    @property
    def swap_ab(self) -> bool: ...


class Memory(NamedTuple):
    """Bytes of dynamic shared memory of one thread block, and the mainloop stages that they hold."""

    stages: int
    total: int


def named(first: str, arch: str, *parts: object) -> str:
    """The name of file, symbol, table row and report: what it is and for which architecture, then the parts
    that are not empty. Every field that may differ has one."""
    return "_".join(map(str, filter(None, (f"{first}_{arch.replace('_', '').removesuffix('a')}", *parts))))


def kernel_operands(config: Product) -> tuple[str, str]:
    """Types of the kernel's own A and B: the caller's, exchanged where the operands are swapped."""
    return (config.b, config.a) if config.swap_ab else (config.a, config.b)


def k_contiguous(config: Any) -> tuple[bool, bool]:
    """Whether k is the contiguous dimension of the kernel's own A and B: of an A that is t and a B that is n,
    as BLAS writes the caller's layout."""
    a, b = config.layout[0] == "t", config.layout[1] == "n"
    return (b, a) if config.swap_ab else (a, b)


def alignment(config: Any) -> dict[str, int]:
    """Elements at multiples of which matrices begin: TMA's 16 bytes. C is of D's type."""
    return {name: 128 // bits(config.d if name == "c" else getattr(config, name)) for name in "abcd"}


def swizzle(contiguous_bytes: int) -> int:
    """Bytes of the widest swizzle that a row of such a size takes; the last is no swizzle."""
    return next((width for width in (128, 64, 32, 16) if contiguous_bytes % width == 0), 16)


def camel(name: str) -> str:
    """InTurn of in_turn."""
    return "".join(map(str.capitalize, name.split("_")))


def with_launch(words: str, config: Any) -> str:
    """A text about a kernel, with how it is launched."""
    return f"{words}, programmatic dependent launch" if config.pdl else words


def spelt(values: dict[str, str | int | bool]) -> dict[str, str]:
    """A template's variables as C++ spells them."""
    return {name: one if type(one) is str else str(one).lower() for name, one in values.items()}


def shared_memory(bytes_of: Callable[[Any], int], fields: str) -> Rule:
    """The rule that dynamic shared memory is no more than there is."""

    # CUDA programming guide, "Compute Capabilities": 227 KB a thread block, 99 on sm_12x.
    def shared_memory(config: Any) -> str | None:
        """A thread block's shared memory is at most 227 KB, on sm_12x 99 KB."""
        total, limit = bytes_of(config), of_target(config.arch).shared_memory.block
        wanted = f"{total:,} bytes of shared memory, of {limit:,} that {config.arch} has"
        return wanted if total > limit else None

    return rule(HARDWARE, fields)(shared_memory)


# sm90_gemm_tma_warpspecialized_pingpong.hpp: "Ping-pong kernel does not currently support stream-K".
@rule(cutlass("4.2"), "scheduler schedule")
def stream_k_schedule(config: Any) -> str | None:
    """Stream-K is not for the ping-pong schedule."""
    if config.scheduler == "stream_k" and config.schedule == "pingpong":
        return "stream_k needs the cooperative schedule, not pingpong"
    return None
