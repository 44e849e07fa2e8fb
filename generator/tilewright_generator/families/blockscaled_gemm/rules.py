"""What is legal for a `blockscaled_gemm` kernel: the single statement, asked by all that need to know.

Each rule takes a configuration and answers None, or the reason with its numbers. The comment above a
rule names what it rests on: an assertion in CUTLASS 4.2, the PTX manual, a failed compile, or a policy of
our own.
"""

from __future__ import annotations

from collections.abc import Callable

from tilewright_generator.families.blockscaled_gemm.config import (
    ULTRA_K,
    BlockscaledGemmConfig,
    bits,
    block,
    family,
    mixes_bits,
    quantizes,
    ultra,
)
from tilewright_generator.families.blockscaled_gemm.hopper import (
    hopper_depth,
    hopper_swap,
    hopper_tile,
)
from tilewright_generator.families.blockscaled_gemm.memory import LIMITS, memory

_FAMILY_NAMES = {"hopper": "sm_90", "tcgen05": "sm_100, sm_103 and sm_110", "sm120": "sm_12x"}
_SCHEDULES = {"hopper": ("cooperative",), "tcgen05": ("1sm", "2sm"), "sm120": ("cooperative", "pingpong")}


# PTX tcgen05.mma and mma .block_scale: both operands have scales of one kind. NVFP4's blocks of 16 go with
# its own alone; mxf8f6f4 mixes 8 and 4 bits, both with UE8M0 scales for 32.
def operand_formats(config: BlockscaledGemmConfig) -> str | None:
    """A and B have blocks of one size."""
    if block(config.a) != block(config.b):
        blocks = f"{config.a} has blocks of {block(config.a)} and {config.b} of {block(config.b)}"
        return f"{blocks}; equal ones are wanted"
    return None


# sm100_blockscaled_layout.hpp (Sm1xxBlockScaledOutputConfig); CUTLASS has no 90-series epilogue that does it.
def quantized_output(config: BlockscaledGemmConfig) -> str | None:
    """A quantised D lies row-major beside its scales, stored by TMA, and is not one of Hopper's."""
    if not quantizes(config):
        return None
    if family(config) == "hopper":
        return f"the kernels of sm_90 have no epilogue that quantises D to {config.d}"
    if config.swap_ab:
        return f"D of {config.d} has its blocks along n, which swap_ab makes the kernel's m"
    if config.store != "tma":
        return f"D of {config.d} is stored by TMA, not {config.store}"
    return None


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
# (sm100_blockscaled_layout.hpp). 512 and more leave no second stage beside a tile of 128.
def tile_depth(config: BlockscaledGemmConfig) -> str | None:
    """Tile K is 128 or 256 (8-bit operands: 128), or 768 for sm_103's FP4."""
    if config.tile.k == ULTRA_K or family(config) == "hopper":
        return None
    known = (128, 256) if not mixes_bits(config) and bits(config.a) == 4 else (128,)
    if config.tile.k not in known:
        return f"tile K of {config.a} x {config.b} is {' or '.join(map(str, known))}, not {config.tile.k}"
    return None


# sm103_blockscaled_umma_builder.inl: "TileShape_K should 768 for MMA kernels", FP4 alone, K-major;
# the instructions exist on 10.3 and nowhere else. NoSmem is what CUTLASS's generator pairs with it.
def ultra_tile(config: BlockscaledGemmConfig) -> str | None:
    """Tiles of K 768 are sm_103a's, for FP4, with N of 128, 192 or 256 and D stored directly."""
    if not ultra(config):
        return None
    if config.arch != "sm_103a":
        return f"tile K {ULTRA_K} is for sm_103a, not {config.arch}"
    if bits(config.a) != 4 or bits(config.b) != 4:
        return f"tile K {ULTRA_K} is for FP4 operands, not {config.a} x {config.b}"
    if config.tile.n not in (128, 192, 256):
        return f"tiles of K {ULTRA_K} have N of 128, 192 or 256, not {config.tile.n}"
    if config.store == "tma":
        return f"tiles of K {ULTRA_K} leave no shared memory for D: store is direct or direct_256"
    return None


def prefetch_of_ultra(config: BlockscaledGemmConfig) -> str | None:
    """Prefetch is a choice of the tiles of K 768 alone."""
    if config.prefetch == "none" and not ultra(config):
        return f"prefetch is a choice of tiles of K {ULTRA_K}, not {config.tile.k}"
    return None


# sm120_blockscaled_mma_builder.inl: a cooperative kernel's warps cover 128 rows, a ping-pong kernel's 64;
# the layout of B's scale factors divides N by 128 in CUTLASS 4.2 (a tile of 32 or 64 does not compile: "TMA
# requires CTA_Tile and SLayout top-level size equivalence"), and not in 4.5.
def sm120_tile(config: BlockscaledGemmConfig) -> str | None:
    """On sm_12x tile M is 128 or 256 and N 128 or 256; with CUTLASS 4.5 N may be 32 or 64 too."""
    if family(config) != "sm120":
        return None
    if config.tile.m not in (128, 256):
        return f"tile M is 128 or 256, not {config.tile.m}"
    if config.tile.n in (32, 64):
        if config.cutlass == "4.2":
            return f"tile N {config.tile.n} does not compile with CUTLASS 4.2: say `cutlass: 4.5`"
        return None
    if config.tile.n not in (128, 256):
        return f"tile N is 32, 64, 128 or 256, not {config.tile.n}"
    return None


# sm120_blockscaled_mma_builder.inl: "no programmatic multicast on this arch".
def cluster_of_one(config: BlockscaledGemmConfig) -> str | None:
    """On sm_12x and sm_90 a cluster is one thread block (sm_90's split of k makes clusters of its own)."""
    if family(config) != "tcgen05" and config.cluster != (1, 1):
        return f"kernels of {_FAMILY_NAMES[family(config)]} have cluster 1x1, not {config.cluster}"
    return None


# sm100_gemm_tma_warpspecialized.hpp, can_implement: scale factors are multicast to 4 thread blocks at most.
# Powers of two are ours.
def cluster_size(config: BlockscaledGemmConfig) -> str | None:
    """A static cluster has sides of 1, 2 or 4; where two SMs share an MMA its M is even."""
    if family(config) != "tcgen05" or isinstance(config.cluster, str):
        return None
    m, n = config.cluster
    if m not in (1, 2, 4) or n not in (1, 2, 4):
        return f"cluster {config.cluster} has a side that is not 1, 2 or 4"
    if config.schedule == "2sm" and m % 2:
        return f"2sm needs an even cluster M, {m} is not"
    return None


# sm90_gemm_tma_warpspecialized_pingpong.hpp: "Ping-pong kernel does not currently support stream-K".
def stream_k_schedule(config: BlockscaledGemmConfig) -> str | None:
    """Stream-K is not for the ping-pong schedule, nor for sm_90, where thread blocks of a cluster split k."""
    if config.scheduler != "stream_k":
        return None
    if config.schedule == "pingpong":
        return "stream_k needs the cooperative schedule, not pingpong"
    if family(config) == "hopper":
        return "kernels of sm_90 split k over a cluster, at run time: they have no stream_k"
    return None


# The NoSmem epilogues of CUTLASS are sm_100's; ours of Hopper has one way to store.
def store_of_family(config: BlockscaledGemmConfig) -> str | None:
    """Direct stores are a choice on sm_100, sm_103 and sm_110."""
    if config.store != "tma" and family(config) != "tcgen05":
        return f"kernels of {_FAMILY_NAMES[family(config)]} have one store, tma, not {config.store}"
    return None


# The builders: "Smem usage is too high", "Specialization requires Stages set to value 2 or more"; the
# kernels: "SMEM usage exceeded capacity"; and sm90/config.hpp. The limits are the hardware's.
def shared_memory(config: BlockscaledGemmConfig) -> str | None:
    """At least two stages, and the epilogue's buffers, fit into shared memory."""
    if any(
        rule(config) for rule in (tcgen05_tile, tile_depth, ultra_tile, sm120_tile, hopper_tile, hopper_depth)
    ):
        return None  # their reasons say it better
    stages, total = memory(config)
    limit, tile = LIMITS[family(config)], f"tile {config.tile} and D {config.d}"
    if stages < 2:
        return f"shared memory of {limit} B holds {max(stages, 0)} stages of {tile}; two are wanted"
    if total > limit:
        return f"shared memory {total} B > {limit} B of {config.arch}, with {stages} stages of {tile}"
    return None


RULES: tuple[Callable[[BlockscaledGemmConfig], str | None], ...] = (
    operand_formats,
    quantized_output,
    schedule_of_family,
    tcgen05_tile,
    tile_depth,
    ultra_tile,
    prefetch_of_ultra,
    sm120_tile,
    cluster_of_one,
    cluster_size,
    stream_k_schedule,
    store_of_family,
    hopper_tile,
    hopper_depth,
    hopper_swap,
    shared_memory,
)
