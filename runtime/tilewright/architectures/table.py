"""What is known of each GPU architecture, stated once. Other modules ask here.

A new architecture is one `Architecture` in `ARCHITECTURES`: its targets, its limit of shared memory, the
names of its tensor-core instructions, what CUTLASS calls it, its GPUs. Architectures that
share tensor-core instructions share a `TensorCore`, and with it kernels, rules and cost models.
"""

from collections.abc import Mapping
from typing import NamedTuple

Capability = tuple[int, int]

KIB, MIB = 2**10, 2**20


class Opcode(NamedTuple):
    """A tensor-core instruction in machine code."""

    name: str  # how the opcode begins
    scales: str = ""  # a regular expression: the suffixes that say which scale factors go with it


class TensorCore(NamedTuple):
    """Tensor-core instructions, as one or more architectures have them."""

    instruction: str  # its name in PTX
    opcodes: Mapping[str, Opcode]
    """By operands: half (BF16, FP16), tf32, fp8, s8, nvfp4, mxfp4; mx where an operand has an MX format
    of 8 bits."""
    multiplications: Mapping[int, int]  # that an SM does in a clock, by the bits of the wider operand
    fp4_k: int = 0  # K of one FP4 instruction; 0 where there is none


class Cutlass(NamedTuple):
    """What CUTLASS calls an architecture, and what its kernels take there."""

    tag: str  # cutlass::arch::<tag>; also ends the names of mainloop schedules
    pdl: str = ""  # the macro that compiles programmatic dependent launch in
    fp4_tag: str = ""  # the tag of mainloops with the architecture's own FP4 instructions
    unit_gib: int = 4  # peak memory to allow for one compiler


class SharedMemory(NamedTuple):
    """Bytes of shared memory."""

    block: int  # that one thread block may have
    sm: int  # of an SM


class Gpu(NamedTuple):
    """A GPU as its data sheet describes it."""

    key: str  # its name on a command line
    name: str  # as the driver reports it
    sm_count: int
    clock_hz: float  # of the SMs, the highest
    memory_bandwidth: float  # bytes a second, as the interface is rated
    l2_bytes: int
    clusters: tuple[int, ...] = ()  # clusters of 1 to 8 thread blocks that run at once; empty if unknown


class Architecture(NamedTuple):
    """One compute capability."""

    capability: Capability
    family: str  # the name of all minors of its major, for people
    targets: tuple[str, ...]  # of nvcc, that specs may name
    best_target: str  # the target to write into a spec for its GPUs
    shared_memory: SharedMemory
    tensor_core: TensorCore
    cutlass: Cutlass
    gpus: tuple[Gpu, ...] = ()
    nvcc: str = ""  # the first release that compiles for its targets; "": the oldest that a build takes

    @property
    def number(self) -> int:
        """103 of sm_103."""
        return 10 * self.capability[0] + self.capability[1]


# SASS names are from cuobjdump's output for kernels of each kind (nvcc 13.0). A wgmma of n columns takes
# n / 2 clocks (PTX ISA; NVIDIA's H100 white paper).
WGMMA = TensorCore(
    "wgmma",
    {"half": Opcode("HGMMA"), "tf32": Opcode("HGMMA"), "fp8": Opcode("QGMMA"), "s8": Opcode("IGMMA")},
    {32: 1024, 16: 2048, 8: 4096},
)
# Dense peaks of the data sheets over SMs and clock: 4 and 2 times BF16's 4096. FP4 beside FP8 is multiplied,
# and lies in shared memory, as 8 bits.
TCGEN05 = TensorCore(
    "tcgen05",
    {
        "half": Opcode("UTCHMMA"),
        "tf32": Opcode("UTCHMMA"),
        "fp8": Opcode("UTCQMMA"),
        "s8": Opcode("UTCIMMA"),  # sm_100a and sm_110a have it, their families' targets do not (PTX ISA)
        "nvfp4": Opcode("UTCOMMA", r"\.4X"),
        "mxfp4": Opcode("UTCOMMA", "$"),
        "mx": Opcode("UTCQMMA", "$"),
    },
    {4: 16384, 8: 8192, 16: 4096, 32: 2048},
    fp4_k=64,
)
# FP4 instructions of K 96 exist on 10.3 alone (PTX ISA, "tcgen05.mma"); there every instruction of NVFP4 says
# BLOCK16.
TCGEN05_ULTRA = TCGEN05._replace(
    opcodes={**TCGEN05.opcodes, "nvfp4": Opcode("UTCOMMA", r"\.BLOCK16")}, fp4_k=96
)
# On 10.7 an FP4 instruction has K of 128 (CUTLASS 4.8, mma_sm107_umma.hpp). It says BLOCK16, too.
TCGEN05_RUBIN = TCGEN05_ULTRA._replace(fp4_k=128)
# Dense FP4 rate of the RTX Blackwell white paper over SMs and clock, and half of it: block-scaled FP8 has
# half, on GeForce too (QuACK pull request 153).
MMA_SYNC = TensorCore(
    "mma.sync",
    {
        "half": Opcode("HMMA"),
        "tf32": Opcode("HMMA"),
        "fp8": Opcode("QMMA"),
        "nvfp4": Opcode("OMMA", r"\.SF.*\.UE4M3\.4X"),
        "mxfp4": Opcode("OMMA", r"\.SF.*\.E8"),
        "mx": Opcode("QMMA", r"\.SF"),
    },
    {4: 2048, 8: 1024},
    fp4_k=64,
)

# Shared memory: CUDA programming guide, "Compute Capabilities". The system takes 1 KiB of each
# thread block's.
_LARGE = SharedMemory(227 * KIB, 228 * KIB)
_SMALL = SharedMemory(99 * KIB, 100 * KIB)

# CUTLASS 4.2's switch for sm_100 covers 103, 120 and 121, and leaves sm_110 out: there we define what the
# switch leads to. Memory of a unit: measured with nvcc 13.0 and CUTLASS 4.2 (3.2 to 3.8 GB on sm_90, to
# 5.6 GB on sm_100 to sm_121), rounded up.
_SM90 = Cutlass("Sm90")
_SM100 = Cutlass("Sm100", "CUTLASS_ENABLE_GDC_FOR_SM100=1", unit_gib=6)
_SM103 = _SM100._replace(fp4_tag="Sm103")
_SM107 = _SM100._replace(fp4_tag="Sm107")
_SM110 = _SM100._replace(pdl="CUTLASS_GDC_ENABLED=1")
_SM120 = _SM100._replace(tag="Sm120")

_HOPPER_CLUSTERS = (132, 66, 39, 30, 22, 17, 15, 15)
"""As the driver of an H200 says. Other GPUs of that name differ by one or two in some, H100s too."""

# Nobody had the GPUs other than the H200 at hand: data sheets and white papers as named. An order of tactics
# is tested on them, never a time.
ARCHITECTURES: tuple[Architecture, ...] = (
    Architecture(
        (9, 0), "Hopper", ("sm_90a",), "sm_90a", _LARGE, WGMMA, _SM90,
        gpus=(
            # NVIDIA's data sheet; clock, L2 and SMs as the driver reports them.
            Gpu("h200", "NVIDIA H200", 132, 1.98e9, 4.8e12, 60 * MIB, _HOPPER_CLUSTERS),
            # H100 SXM5 data sheet; SMs, clock and L2 as CUDA's deviceQuery prints them.
            Gpu("h100", "NVIDIA H100", 132, 1.98e9, 3.35e12, 50 * MIB, _HOPPER_CLUSTERS),
        ),
    ),
    Architecture(
        (10, 0), "Blackwell (data center)", ("sm_100a", "sm_100f"), "sm_100a", _LARGE, TCGEN05,
        _SM100,
        # DGX B200 data sheet (64 TB/s over 8 GPUs); SMs and L2 as CUDA's deviceQuery prints them.
        gpus=(Gpu("b200", "NVIDIA B200", 148, 1.965e9, 8.0e12, 126 * MIB),),
    ),
    Architecture(
        (10, 3), "Blackwell (data center)", ("sm_103a",), "sm_103a", _LARGE, TCGEN05_ULTRA,
        _SM103,
        # DGX B300 data sheet; NVIDIA's article "Inside NVIDIA Blackwell Ultra" (its 160 SMs are the whole
        # chip's).
        gpus=(Gpu("b300", "NVIDIA B300", 148, 2.032e9, 8.0e12, 126 * MIB),),
    ),
    # Rubin runs the family's machine code, too: ptxas 13.5 compiles .target sm_100f and sm_103f for sm_107.
    # sm_100f is the target to advise: sm_107a takes newer compilers, and CUTLASS 4.8.
    Architecture(
        (10, 7), "Blackwell (data center)", ("sm_107a",), "sm_100f", SharedMemory(327 * KIB, 328 * KIB),
        TCGEN05_RUBIN, _SM107, nvcc="13.4",
        # NVIDIA's article "Inside the NVIDIA Rubin Platform": 224 SMs, 22 TB/s, 4 PFLOP/s of BF16, from which
        # the clock follows. Shared memory as CuTe-DSL 4.8 states it. L2 is not published: a B200's.
        gpus=(Gpu("rubin", "NVIDIA Rubin", 224, 2.18e9, 22e12, 126 * MIB),),
    ),
    # The chips of 11.x were numbered 10.1 until CUDA 12. They are a family of their own.
    Architecture(
        (11, 0), "Thor", ("sm_110a", "sm_110f"), "sm_110a", _LARGE, TCGEN05, _SM110,
        # Jetson AGX Thor data sheet (T5000): 2560 cores, 1.57 GHz, 273 GB/s of LPDDR5X.
        gpus=(Gpu("thor", "NVIDIA Thor", 20, 1.575e9, 273e9, 32 * MIB),),
    ),
    Architecture(
        (12, 0), "Blackwell (RTX, Spark)", ("sm_120a", "sm_120f"), "sm_120f", _SMALL, MMA_SYNC,
        _SM120,
        gpus=(
            # RTX Blackwell PRO architecture white paper: 188 SMs, 512-bit GDDR7 of 28 Gbit/s, boost 2617 MHz.
            Gpu("rtx-pro-6000", "NVIDIA RTX PRO 6000 Blackwell", 188, 2.617e9, 1.792e12, 128 * MIB),
            # RTX Blackwell architecture white paper: 170 SMs, 512-bit GDDR7 of 28 Gbit/s, boost 2407 MHz, L2
            # of 98304 KB.
            Gpu("rtx-5090", "NVIDIA GeForce RTX 5090", 170, 2.407e9, 1.792e12, 96 * MIB),
        ),
    ),
    Architecture(
        (12, 1), "Blackwell (RTX, Spark)", ("sm_121a",), "sm_120f", _SMALL, MMA_SYNC,
        _SM120,
        # DGX Spark data sheet: 6144 cores, 273 GB/s of LPDDR5X; clock and L2 as deviceQuery prints them.
        gpus=(Gpu("gb10", "NVIDIA GB10", 48, 2.418e9, 273e9, 24 * MIB),),
    ),
)  # fmt: skip


def targets(core: TensorCore | None = None) -> tuple[str, ...]:
    """Every target that a spec may name, or those that have the tensor-core instructions `core`."""
    return tuple(
        target
        for architecture in ARCHITECTURES
        for target in architecture.targets
        if core in (None, architecture.tensor_core)
    )


def find_target(target: str) -> Architecture | None:
    """The architecture that a target is named after: sm_103's of sm_103a. None for one that is not here."""
    number = int(target.removeprefix("sm_").rstrip("af"))
    return next((architecture for architecture in ARCHITECTURES if architecture.number == number), None)


def of_target(target: str) -> Architecture:
    """The architecture of a target. Raises KeyError if the table does not have it."""
    architecture = find_target(target)
    if architecture is None:
        raise KeyError(target)
    return architecture


def has_tensor_core(target: str, core: TensorCore) -> bool:
    """Whether a target's tensor cores have these instructions. False for an architecture that is not here."""
    architecture = find_target(target)
    return architecture is not None and architecture.tensor_core == core


def of_capability(capability: Capability) -> Architecture | None:
    """What is known of a GPU: its architecture, or the newest one before it of the same major."""
    older = [
        architecture
        for architecture in ARCHITECTURES
        if architecture.capability[0] == capability[0] and architecture.capability[1] <= capability[1]
    ]
    return max(older, key=lambda architecture: architecture.capability, default=None)
