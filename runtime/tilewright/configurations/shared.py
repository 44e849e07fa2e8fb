"""Declarations that several families share: fields, limits of architectures, names, words."""

from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple, TypedDict

from tilewright.architectures.table import ARCHITECTURES, MMA_SYNC, WGMMA, of_target, targets
from tilewright.configurations.shapes import Cluster, Tile
from tilewright.configurations.value_kinds import Bounds, OneOf

BARRIER = 16  # bytes of a full and an empty mbarrier
HOPPER_SHARED_MEMORY = of_target("sm_90a").shared_memory.block
SM120_SHARED_MEMORY = of_target("sm_120f").shared_memory.block
# The target of a family whose kernels need nothing that one architecture alone has.
AnyTarget = Annotated[str, OneOf(targets())]
# The target of a family whose kernels need wgmma.
WgmmaTarget = Annotated[str, OneOf(targets(WGMMA))]
# The target of a family that has kernels of wgmma and kernels of mma.sync.
MatrixTarget = Annotated[str, OneOf((*targets(WGMMA), *targets(MMA_SYNC)))]

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
    """Facts of a kernel that has no other facts than its threads."""

    threads: Threads


class PipelineFacts(TypedDict):
    """Derived numbers of a kernel that loads through a pipeline."""

    stages: StageCount
    smem_bytes: SharedBytes
    threads: Threads


class Memory(NamedTuple):
    """Bytes of dynamic shared memory of one thread block, and the mainloop stages that they hold."""

    stages: int
    total: int


def flag(text: str, condition: bool) -> str:
    """The text if the condition holds, else an empty string: `flag("swap", config.swap_ab)`."""
    return text if condition else ""


@dataclass(frozen=True, slots=True)
class MoverConfig:
    """Everything that is decided when a kernel of `configurations/mover.py` is compiled."""

    arch: Annotated[AnyTarget, "architecture the kernel is compiled for"]
    pdl: OwnPdl = True
