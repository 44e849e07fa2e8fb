"""Declarations that several families share: fields, limits of architectures, names, words."""

from typing import Annotated, Any, Literal, NamedTuple, Protocol, TypedDict

from tilewright.architectures.table import ARCHITECTURES, WGMMA, of_target, targets
from tilewright.configurations.shapes import Cluster, Tile
from tilewright.configurations.value_kinds import Bounds, OneOf
from tilewright.formats.types import bits

BARRIER = 16  # bytes of a full and an empty mbarrier
HOPPER_SHARED_MEMORY = of_target("sm_90a").shared_memory.block
# The target of a family whose kernels need nothing that one architecture alone has.
AnyTarget = Annotated[str, OneOf(targets())]
# The target of a family whose kernels need wgmma.
WgmmaTarget = Annotated[str, OneOf(targets(WGMMA))]

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


# Numbers that follow from a configuration, as tables hold them.
SharedBytes = Annotated[
    int, Bounds(0, max(architecture.shared_memory.block for architecture in ARCHITECTURES))
]
Threads = Annotated[int, Bounds(32, 1024)]
StageCount = Annotated[int, Bounds(1, 32)]
Multiple = Annotated[int, Bounds(1, 4096)]  # elements or bytes that something is a multiple of
_OneOrTwo = Annotated[int, Bounds(1, 2)]
ClusterMultiple = tuple[_OneOrTwo, _OneOrTwo]  # that run-time clusters are multiples of


class MatrixAlignment(TypedDict):
    """Elements of which the contiguous extent and the leading dimension of each matrix are multiples."""

    a: Multiple
    b: Multiple
    c: Multiple
    d: Multiple


class ThreadsFacts(TypedDict):
    """Derived numbers of a kernel of which nothing else is asked."""

    threads: Threads


class PipelineFacts(TypedDict):
    """Derived numbers of a kernel that loads through a pipeline."""

    stages: StageCount
    smem_bytes: SharedBytes
    threads: Threads


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


def flag(text: str, condition: bool) -> str:
    """A part of a name, or of a sentence, that stands under a condition: `flag("swap", config.swap_ab)`."""
    return text if condition else ""


def kernel_operands(config: Product) -> tuple[str, str]:
    """Types of the kernel's own A and B: the caller's, exchanged where the operands are swapped."""
    return (config.b, config.a) if config.swap_ab else (config.a, config.b)


def k_contiguous(config: Any) -> tuple[bool, bool]:
    """Whether k is the contiguous dimension of the kernel's own A and B: of an A that is t and a B that is n,
    as BLAS writes the caller's layout."""
    a, b = config.layout[0] == "t", config.layout[1] == "n"
    return (b, a) if config.swap_ab else (a, b)


def alignment(config: Any) -> MatrixAlignment:
    """Elements at multiples of which matrices begin: TMA's 16 bytes. C is of D's type."""
    a, b, d = (128 // bits(type) for type in (config.a, config.b, config.d))
    return {"a": a, "b": b, "c": d, "d": d}


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
    return {name: value if type(value) is str else str(value).lower() for name, value in values.items()}
