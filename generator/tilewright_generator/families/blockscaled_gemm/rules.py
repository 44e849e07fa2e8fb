"""What is legal for a `blockscaled_gemm` kernel: the single statement, asked by all that need to know.

The comment above a rule names what it rests on: an assertion in CUTLASS, the PTX manual, a failed compile.
What nvcc says of all this stands in `benchmarks/results/rules_against_compiler.md`.
"""

from __future__ import annotations

from tilewright.types import bits
from tilewright_generator.families.blockscaled_gemm import hopper, ultra
from tilewright_generator.families.blockscaled_gemm.config import (
    ULTRA_K,
    BlockscaledGemmConfig,
    block,
    family,
    mixes_bits,
    quantizes,
)
from tilewright_generator.families.blockscaled_gemm.memory import LIMITS, memory
from tilewright_generator.families.rule import HARDWARE, OURS, cutlass, of_module, rule

_FAMILY_NAMES = {"hopper": "sm_90", "tcgen05": "sm_100, sm_103 and sm_110", "sm120": "sm_12x"}
_SCHEDULES = {"hopper": ("cooperative",), "tcgen05": ("1sm", "2sm"), "sm120": ("cooperative", "pingpong")}


# PTX tcgen05.mma and mma .block_scale: both operands have scales of one kind. NVFP4's blocks of 16 go with
# its own alone; mxf8f6f4 mixes 8 and 4 bits, both with UE8M0 scales for 32.
@rule(HARDWARE, "b a")
def operand_formats(config: BlockscaledGemmConfig) -> str | None:
    """A and B have blocks of one size."""
    if block(config.a) != block(config.b):
        blocks = f"{config.a} has blocks of {block(config.a)} and {config.b} of {block(config.b)}"
        return f"{blocks}; equal ones are wanted"
    return None


# CUTLASS's epilogues that make scale factors are sm_100's and sm_120's; ours of Hopper makes none.
@rule(OURS, "d arch")
def quantized_output(config: BlockscaledGemmConfig) -> str | None:
    """D is quantised on Blackwell alone."""
    if quantizes(config) and family(config) == "hopper":
        return f"the kernels of sm_90 have no epilogue that quantises D to {config.d}"
    return None


# It compiles: the blocks would lie along the kernel's n, which is then the caller's m.
@rule(
    OURS,
    "swap_ab d",
    compiles="the blocks would lie along the caller's m, in a layout that no consumer reads",
)
def quantized_swap(config: BlockscaledGemmConfig) -> str | None:
    """A quantised D has its blocks along n, so that its operands are not swapped."""
    if quantizes(config) and config.swap_ab and family(config) != "hopper":
        return f"D of {config.d} has its blocks along n, which swap_ab makes the kernel's m"
    return None


# It compiles; CUTLASS's examples pair TMA alone with it (72b).
@rule(OURS, "store d", compiles="it compiles, but CUTLASS's examples pair TMA alone with it")
def quantized_store(config: BlockscaledGemmConfig) -> str | None:
    """A quantised D is stored by TMA."""
    if quantizes(config) and config.store != "tma":
        return f"D of {config.d} is stored by TMA, not {config.store}"
    return None


# Our template takes an unknown schedule for the first of its architecture.
@rule(
    OURS, "schedule arch", compiles="the kernel would be another schedule's, under a name that says otherwise"
)
def schedule_of_family(config: BlockscaledGemmConfig) -> str | None:
    """1sm and 2sm are schedules of sm_100, sm_103 and sm_110; cooperative and pingpong of the others."""
    known = _SCHEDULES[family(config)]
    if config.schedule not in known:
        return (
            f"{_FAMILY_NAMES[family(config)]} has the schedules {' and '.join(known)}, not {config.schedule}"
        )
    return None


# sm100_blockscaled_umma_builder.inl: block-scaled MMAs have M of 128 (one SM) or 256 (two), N of 64, 128, 192
# or 256.
@rule(cutlass("4.2"), "tile")
def tcgen05_tile(config: BlockscaledGemmConfig) -> str | None:
    """On sm_100, sm_103 and sm_110 a thread block's tile is 128 rows by 64, 128, 192 or 256 columns."""
    if family(config) != "tcgen05":
        return None
    if config.tile.m != 128:
        return f"a thread block's tile has M 128 ({config.schedule}), not {config.tile.m}"
    if config.tile.n not in (64, 128, 192, 256):
        return f"tile N is 64, 128, 192 or 256, not {config.tile.n}"
    return None


# The scale factors of a tile are whole atoms of 4 along k: 64 elements of NVFP4, 128 of the others
# (sm100_blockscaled_layout.hpp); sm120_blockscaled_mma_builder.inl has 128 as the least for 8 bits. Ours:
# a row of a stage is a swizzled line of 128 bytes (FP4: or half of one). Two lines leave a tile of 128x128 3
# stages of 8 bits where one leaves 6.
@rule(OURS, "tile a b", compiles="shallower stages are half-used lines of shared memory, deeper ones too few")
def tile_depth(config: BlockscaledGemmConfig) -> str | None:
    """Tile K is 128 or 256 (8-bit operands: 128), or 768 for sm_103's FP4."""
    if config.tile.k == ULTRA_K or family(config) == "hopper":
        return None
    known = (128, 256) if not mixes_bits(config) and bits(config.a) == 4 else (128,)
    if config.tile.k not in known:
        return f"tile K of {config.a} x {config.b} is {' or '.join(map(str, known))}, not {config.tile.k}"
    return None


# sm120_blockscaled_mma_builder.inl divides the scale factors' rows by 128: M of 64, N of 96 and 192 do not
# compile ("Shape Divisibility Condition", "TMA requires CTA_Tile and SLayout top-level size equivalence"),
# nor does an N below 32 ("EPI_TILE_N must divide CTA_N"). CUTLASS 4.5 rounds B's rows up, so that it takes N
# of 32 and 64; 4.6 takes 8 and 16 too, and no kernel here is made for it yet.
@rule(cutlass("4.5"), "tile cutlass")
def sm120_tile(config: BlockscaledGemmConfig) -> str | None:
    """On sm_12x tile M is 128 or 256 and N 128 or 256; from CUTLASS 4.5 on N may be 32 or 64 too."""
    if family(config) != "sm120":
        return None
    if config.tile.m not in (128, 256):
        return f"tile M is 128 or 256, not {config.tile.m}"
    if config.tile.n in (32, 64):
        if config.cutlass == "4.2":
            return f'tile N {config.tile.n} does not compile with CUTLASS 4.2: say `cutlass: "4.5"`'
        return None
    if config.tile.n in (8, 16):
        return f"tile N {config.tile.n} came with CUTLASS 4.6; kernels here are made for 4.2 and 4.5"
    if config.tile.n not in (128, 256):
        return f"tile N is 32, 64, 128 or 256, not {config.tile.n}"
    return None


# The mma of sm_12x accumulates in registers, of which 384 threads leave 168 to each at compile time.
@rule(OURS, "tile schedule", compiles="the accumulators would be kept in local memory")
def sm120_accumulators(config: BlockscaledGemmConfig) -> str | None:
    """On sm_12x a thread has at most 128 accumulators: two warpgroups share a tile, or have one each."""
    if family(config) != "sm120":
        return None
    threads = 128 if config.schedule == "pingpong" else 256
    per_thread = config.tile.m * config.tile.n // threads
    if per_thread > 128:
        return (
            f"tile {config.tile.m}x{config.tile.n} on {threads} threads takes {per_thread} accumulators a "
            "thread > 128: the others would be kept in local memory"
        )
    return None


# sm120_blockscaled_mma_builder.inl: "no programmatic multicast on this arch", "Cluster has to be static".
@rule(cutlass("4.2"), "cluster")
def cluster_of_one(config: BlockscaledGemmConfig) -> str | None:
    """On sm_12x a cluster is one thread block."""
    if family(config) == "sm120" and config.cluster != (1, 1):
        return f"kernels of sm_12x have cluster 1x1, not {config.cluster}"
    return None


# 8x1 compiles; scale factors are multicast to 4 thread blocks at most (can_implement of
# sm100_blockscaled_mma_warpspecialized.hpp), and sides that are no powers of two leave SMs of a GPC idle.
@rule(OURS, "cluster", compiles="can_implement refuses it, or SMs of a GPC stay idle")
def cluster_size(config: BlockscaledGemmConfig) -> str | None:
    """A static cluster has sides of 1, 2 or 4."""
    if family(config) != "tcgen05" or isinstance(config.cluster, str):
        return None
    m, n = config.cluster
    if m not in (1, 2, 4) or n not in (1, 2, 4):
        return f"cluster {config.cluster} has a side that is not 1, 2 or 4"
    return None


# sm100_builder.inl: "schedule + cluster mismatch".
@rule(HARDWARE, "cluster schedule")
def cluster_of_pairs(config: BlockscaledGemmConfig) -> str | None:
    """Where two SMs share an MMA, a static cluster's M is even."""
    if family(config) != "tcgen05" or isinstance(config.cluster, str):
        return None
    if config.schedule == "2sm" and config.cluster.m % 2:
        return f"2sm needs an even cluster M, {config.cluster.m} is not"
    return None


# sm90_gemm_tma_warpspecialized_pingpong.hpp: "Ping-pong kernel does not currently support stream-K".
@rule(cutlass("4.2"), "scheduler schedule")
def stream_k_schedule(config: BlockscaledGemmConfig) -> str | None:
    """Stream-K is not for the ping-pong schedule."""
    if config.scheduler == "stream_k" and config.schedule == "pingpong":
        return "stream_k needs the cooperative schedule, not pingpong"
    return None


# The field is read nowhere else. The NoSmem epilogues of CUTLASS are sm_100's; ours of Hopper has
# one way.
@rule(OURS, "store arch", compiles="the kernel would be the same under another name")
def store_of_family(config: BlockscaledGemmConfig) -> str | None:
    """Direct stores are a choice on sm_100, sm_103 and sm_110."""
    if config.store != "tma" and family(config) != "tcgen05":
        return f"kernels of {_FAMILY_NAMES[family(config)]} have one store, tma, not {config.store}"
    return None


# sm_100's kernels: "SMEM usage exceeded capacity"; the builders: "Smem usage is too high", and on sm_12x
# "Specialization requires Stages set to value 2 or more"; sm90/config.hpp. The limits are the hardware's. The
# kernels of sm_12x do not compare: with stages given they compile, and do not launch.
@rule(
    HARDWARE,
    "stages tile d c",
    compiles="sm_12x has not so much: with stages given the kernel compiles, and no GPU launches it",
)
def shared_memory(config: BlockscaledGemmConfig) -> str | None:
    """The stages (on sm_12x and sm_90 at least two) and the epilogue's buffers fit into shared memory."""
    if _other_reasons(config):
        return None  # which say it better
    stages, total = memory(config)
    limit, tile = LIMITS[family(config)], f"tile {config.tile} and D {config.d}"
    least = 1 if family(config) == "tcgen05" else 2
    if stages < least:
        return f"shared memory of {limit} B holds {max(stages, 0)} stages of {tile}; {least} are wanted"
    if total > limit:
        return f"shared memory {total} B > {limit} B of {config.arch}, with {stages} stages of {tile}"
    return None


# CUTLASS's collectives of sm_100 compile with one stage, and load and multiply in turns then.
@rule(OURS, "stages tile d c", compiles="loads and the tensor cores would take turns")
def two_stages(config: BlockscaledGemmConfig) -> str | None:
    """Loads overlap with the tensor cores' work: there are two stages at least."""
    if family(config) != "tcgen05" or _other_reasons(config) or shared_memory(config):
        return None
    stages = memory(config).stages
    if stages < 2:
        tile = f"tile {config.tile} and D {config.d}"
        return f"shared memory of {LIMITS['tcgen05']} B holds {stages} stage of {tile}; two are wanted"
    return None


def _other_reasons(config: BlockscaledGemmConfig) -> bool:
    """Whether the tile itself is none, so that the model of its memory means nothing."""
    tiles = (tcgen05_tile, tile_depth, ultra.ultra_tile, ultra.ultra_store, sm120_tile, hopper.hopper_tile,
             hopper.hopper_depth, quantized_output, quantized_store, schedule_of_family)  # fmt: skip
    return any(one(config) for one in tiles)


RULES = (*of_module(__name__), *of_module(ultra.__name__), *of_module(hopper.__name__))
