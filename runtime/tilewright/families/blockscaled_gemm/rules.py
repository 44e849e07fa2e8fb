"""The rules for `blockscaled_gemm` kernels. All code that asks whether a configuration is legal asks these.

The comment above a rule names its source: an assertion in CUTLASS, the PTX manual, a failed compile. What
nvcc accepts of all this is recorded in `benchmarks/results/rules_against_compiler.md`.
"""

from __future__ import annotations

from functools import partial

from tilewright.configurations.rule import HARDWARE, OURS, among, cutlass, of_module, rule, unsettled
from tilewright.configurations.shared import ONE_BLOCK
from tilewright.configurations.shared_rules import stream_k_schedule
from tilewright.families.blockscaled_gemm import (
    bias_rules,
    mma_rules,
    rubin_rules,
    tcgen05_rules,
    ultra_rules,
)
from tilewright.families.blockscaled_gemm.config import (
    HOPPER,
    SM120,
    TCGEN05,
    ULTRA_K,
    Architecture,
    BlockscaledGemmConfig,
    by_mma,
    by_tcgen05,
    on,
)
from tilewright.families.blockscaled_gemm.memory import memory
from tilewright.families.blockscaled_gemm.problem import BLOCK
from tilewright.formats.types import bits

# Fields of which all kernels of an architecture have one value.
SETTLED: dict[Architecture, dict[str, object]] = {
    HOPPER: {"cluster": ONE_BLOCK, "scheduler": "data_parallel", "swap_ab": True, "store": "tma"},
    TCGEN05: {},
    SM120: {"store": "tma", "bias": False},
}
# The same of our mainloop of mma.sync.
SETTLED_MMA: dict[str, object] = {
    "cluster": ONE_BLOCK,
    "schedule": "cooperative",
    "scheduler": "data_parallel",
    "store": "tma",
    "c": "same",
    "cutlass": "4.2",
    "bias": True,
}
# The same of our mainloop of tcgen05.
SETTLED_TCGEN05: dict[str, object] = {
    "scheduler": "data_parallel",
    "c": "same",
    "cutlass": "4.2",
    "bias": True,
}

hopper_rule, tcgen05_rule = (partial(rule, of=on(kind)) for kind in (HOPPER, TCGEN05))
sm120_rule = partial(rule, of=lambda config: config.architecture is SM120 and not by_mma(config))
static_rule = partial(rule, of=lambda config: config.architecture is TCGEN05 and config.cluster != "dynamic")


# PTX tcgen05.mma and mma .block_scale: both operands have scales of one kind. NVFP4's blocks of 16 go with
# its own alone; mxf8f6f4 mixes 8 and 4 bits, both with UE8M0 scales for 32.
@rule(HARDWARE, "b a")
def operand_formats(config: BlockscaledGemmConfig) -> str | None:
    """A and B have blocks of one size."""
    if BLOCK[config.a] != BLOCK[config.b]:
        blocks = f"{config.a} has blocks of {BLOCK[config.a]} and {config.b} of {BLOCK[config.b]}"
        return f"{blocks}; they must be equal"
    return None


# CUTLASS has epilogues that make scale factors for sm_100 and sm_120; our epilogue for Hopper makes none, and
# stores elements of 16 and 32 bits.
@hopper_rule(OURS, "d arch")
def quantized_output(config: BlockscaledGemmConfig) -> str | None:
    """Only Blackwell's kernels write a D of 4 or 8 bits."""
    if bits(config.d) <= 8:
        return f"the kernels of sm_90 have no epilogue that rounds D to {config.d}"
    return None


# It compiles: the blocks would lie along the kernel's n, which is then the caller's m.
@rule(
    OURS,
    "swap_ab d",
    compiles="the blocks would lie along the caller's m, in a layout that no consumer reads",
    of=on(TCGEN05, SM120),
)
def quantized_swap(config: BlockscaledGemmConfig) -> str | None:
    """The operands of a kernel that quantises D are not swapped, because the blocks of D lie along n."""
    if config.quantizes and config.swap_ab:
        return f"D of {config.d} has its blocks along n, which swap_ab makes the kernel's m"
    return None


# Other stores compile; CUTLASS's examples (72b) only have TMA.
@rule(OURS, "store d", compiles="it compiles, but CUTLASS's examples only have TMA")
def quantized_store(config: BlockscaledGemmConfig) -> str | None:
    """A quantised D is stored by TMA."""
    return among(f"store of D of {config.d}", config.store, ("tma",)) if config.quantizes else None


# Our template takes an unknown schedule for the first of its architecture.
@rule(OURS, "schedule arch", compiles="the kernel would have another schedule than its name says")
def schedule_of_family(config: BlockscaledGemmConfig) -> str | None:
    """sm_100, sm_103 and sm_110 have the schedules 1sm and 2sm, other architectures cooperative and
    pingpong."""
    name, schedules, *_ = config.architecture
    return among(f"schedule of {name}", config.schedule, schedules)


# sm100_blockscaled_umma_builder.inl: block-scaled MMAs have M of 128 (one SM) or 256 (two), N of 64, 128, 192
# or 256. Our mainloop has a rule of its own for N.
@tcgen05_rule(cutlass("4.2"), "tile mainloop")
def tcgen05_tile(config: BlockscaledGemmConfig) -> str | None:
    """On sm_100, sm_103 and sm_110 a thread block's tile is 128 rows by 64, 128, 192 or 256 columns, with our
    mainloop also by fewer."""
    if config.tile.m != 128:
        return f"a thread block's tile has M 128 ({config.schedule}), not {config.tile.m}"
    return None if by_tcgen05(config) else among("tile N", config.tile.n, (64, 128, 192, 256))


# The scale factors of a tile are whole atoms of 4 along k: 64 elements of NVFP4, 128 of the others
# (sm100_blockscaled_layout.hpp); sm120_blockscaled_mma_builder.inl has 128 as the least for 8 bits. Ours:
# a row of a stage is a swizzled line of 128 bytes (FP4: or half of one). Two lines leave a tile of 128x128 3
# stages of 8 bits where one leaves 6.
@rule(
    OURS,
    "tile a b",
    compiles="shallower stages are half-used lines of shared memory, deeper ones too few",
    of=lambda config: config.architecture is not HOPPER and not config.ultra and not by_mma(config),
)
def tile_depth(config: BlockscaledGemmConfig) -> str | None:
    """Tile K is 128 or 256 (8-bit operands: 128), or 768 for sm_103's FP4."""
    depths = (128, 256) if bits(config.a) == bits(config.b) == 4 else (128,)
    return among(f"tile K of {config.a} x {config.b}", config.tile.k, depths)


# sm120_blockscaled_mma_builder.inl divides the scale factors' rows by 128: M of 64, N of 96 and 192 do not
# compile ("Shape Divisibility Condition", "TMA requires CTA_Tile and SLayout top-level size equivalence"),
# nor does an N below 32 ("EPI_TILE_N must divide CTA_N"). CUTLASS 4.5 rounds B's rows up, so that it takes N
# of 32 and 64; 4.6 takes 8 and 16 too, and no kernel here is made for it yet.
@sm120_rule(cutlass("4.5"), "tile cutlass")
def sm120_tile(config: BlockscaledGemmConfig) -> str | None:
    """On sm_12x tile M is 128 or 256 and N 128 or 256; from CUTLASS 4.5 on N may be 32 or 64 too."""
    m, n, _ = config.tile
    if reason := among("tile M", m, (128, 256)):
        return reason
    if n in (32, 64) and config.cutlass == "4.2":
        return f'tile N {n} does not compile with CUTLASS 4.2: say `cutlass: "4.5"`'
    if n in (8, 16):
        return f"tile N {n} needs CUTLASS 4.6; kernels here are made for 4.2 and 4.5"
    return among("tile N", n, (32, 64, 128, 256))


# The mma of sm_12x accumulates in registers, of which 384 threads leave 168 to each at compile time.
@sm120_rule(OURS, "tile schedule", compiles="the accumulators would be kept in local memory")
def sm120_accumulators(config: BlockscaledGemmConfig) -> str | None:
    """On sm_12x a thread has at most 128 accumulators: two warpgroups share a tile, or have one each."""
    threads = 128 if config.schedule == "pingpong" else 256
    per_thread = config.tile.m * config.tile.n // threads
    if per_thread > 128:
        return (
            f"tile {config.tile.m}x{config.tile.n} on {threads} threads takes {per_thread} accumulators a "
            "thread > 128: the others would be kept in local memory"
        )
    return None


# sm120_blockscaled_mma_builder.inl: "no programmatic multicast on this arch", "Cluster has to be static".
@sm120_rule(cutlass("4.2"), "cluster")
def cluster_of_one(config: BlockscaledGemmConfig) -> str | None:
    """On sm_12x a cluster is one thread block."""
    return unsettled(config, "kernels of sm_12x", {"cluster": ONE_BLOCK})


# 8x1 compiles; scale factors are multicast to 4 thread blocks at most (can_implement of
# sm100_blockscaled_mma_warpspecialized.hpp), and sides that are no powers of two leave SMs of a GPC idle.
@static_rule(OURS, "cluster", compiles="can_implement refuses it, or SMs of a GPC stay idle")
def cluster_size(config: BlockscaledGemmConfig) -> str | None:
    """A static cluster has sides of 1, 2 or 4."""
    if not {*config.cluster} <= {1, 2, 4}:
        return f"cluster {config.cluster} has a side that is not 1, 2 or 4"
    return None


# sm100_builder.inl: "schedule + cluster mismatch".
@static_rule(HARDWARE, "cluster schedule")
def cluster_of_pairs(config: BlockscaledGemmConfig) -> str | None:
    """If two SMs share an MMA, a static cluster's M is even."""
    assert config.cluster != "dynamic"
    if config.schedule == "2sm" and config.cluster.m % 2:
        return f"2sm needs an even cluster M, {config.cluster.m} is not"
    return None


# sm90/mainloop.hpp: a warpgroup has 64 rows of weights; wgmma's N is the tile's.
@hopper_rule(OURS, "tile")
def hopper_tile(config: BlockscaledGemmConfig) -> str | None:
    """On sm_90 tile M (along the caller's n) is 64, 128 or 256, N 8, 16, 32, 64 or 128."""
    m, n, _ = config.tile
    return among("tile M", m, (64, 128, 256)) or among("tile N", n, (8, 16, 32, 64, 128))


# sm90/operand.hpp: a row of a stage is half a box of 128 bytes, or whole ones.
@hopper_rule(OURS, "tile")
def hopper_depth(config: BlockscaledGemmConfig) -> str | None:
    """On sm_90 tile K is 128, 256 or 512."""
    return among("tile K", config.tile.k, (128, 256, 512))


# Only these kernels read these fields. sm_90: a launch makes a cluster of the thread blocks that split k; the
# kernel decodes its A operand (weights, with many rows) in registers, and its B operand once for the thread
# block. Only sm_100 has CUTLASS's NoSmem epilogues, and only ultra tiles prefetch to L2.
@rule(
    OURS,
    "swap_ab scheduler cluster store prefetch c bias cutlass mainloop arch tile",
    compiles="the kernel would be the same under another name",
)
def settled_fields(config: BlockscaledGemmConfig) -> str | None:
    """Kernels of sm_90 swap their operands, and have cluster 1x1 and no stream-K; on sm_90 and sm_12x D is
    stored by TMA; prefetch is a choice of tiles of K 768 and of the mainloop tcgen05; kernels of the
    mainloops mma and tcgen05 have a bias, CUTLASS's of sm_12x have none."""
    chooses = config.ultra or by_tcgen05(config)
    prefetch = unsettled(config, f"tiles of K {config.tile.k}", {} if chooses else {"prefetch": "tma"})
    if not prefetch and by_tcgen05(config):
        return unsettled(config, "kernels with the mainloop tcgen05", SETTLED_TCGEN05)
    if prefetch or not by_mma(config):
        return prefetch or unsettled(
            config, f"kernels of {config.architecture.name}", SETTLED[config.architecture]
        )
    return unsettled(config, "kernels with the mainloop mma", SETTLED_MMA)


# If one of these rules rejects the tile, its shared memory cannot be computed.
TILES = (tcgen05_tile, tile_depth, sm120_tile, hopper_tile, hopper_depth,
         quantized_output, quantized_store, schedule_of_family, *ultra_rules.TILES, *rubin_rules.TILES,
         *mma_rules.TILES, *tcgen05_rules.TILES)  # fmt: skip


# sm103_blockscaled_gemm_tma_warpspecialized.hpp: the warp that loads A and B waits (wait_on_dependent_grids),
# the warp that loads scale factors (main_sf_load) does not. The check of machine code names its copies.
@ultra_rules.cutlass_rule(
    cutlass("4.2"),
    "pdl tile",
    compiles="no compiler sees a race between kernels",
    unless=(*ultra_rules.RULES, *TILES, settled_fields),
)
def ultra_pdl(config: BlockscaledGemmConfig) -> str | None:
    """Kernels with tiles of K 768 are launched after the previous kernel has ended (pdl: false)."""
    if config.pdl:
        return (
            f"CUTLASS's warp that loads the scale factors of tiles of K {ULTRA_K} does not wait for the "
            "previous kernel, which may still write them: expected pdl: false"
        )
    return None


# sm_100's kernels: "SMEM usage exceeded capacity"; the builders: "Smem usage is too high", and on sm_12x
# "Specialization requires Stages set to value 2 or more"; sm90/config.hpp. The limits are the hardware's. The
# kernels of sm_12x do not compare: with stages given they compile, and do not launch.
@rule(
    HARDWARE,
    "stages tile d c",
    compiles="with explicit stages a kernel for sm_12x compiles, but no GPU can launch it",
    unless=TILES,
)
def shared_memory(config: BlockscaledGemmConfig) -> str | None:
    """The stages (on sm_12x and sm_90 at least two) and the epilogue's buffers fit into shared memory."""
    stages, total = memory(config)
    limit, least = config.hardware.shared_memory.block, config.architecture.least_stages
    tile = f"tile {config.tile} and D {config.d}"
    if stages < least:
        return f"shared memory of {limit} B holds {max(stages, 0)} stages of {tile}; {least} are needed"
    if total > limit:
        return f"shared memory {total} B > {limit} B of {config.arch}, with {stages} stages of {tile}"
    return None


# CUTLASS's collectives of sm_100 compile with one stage, but then load and multiply in turns.
@tcgen05_rule(
    OURS,
    "stages tile d c",
    compiles="loads and the tensor cores would take turns",
    unless=(*TILES, shared_memory),
)
def two_stages(config: BlockscaledGemmConfig) -> str | None:
    """There are at least two stages, so that loads overlap with the tensor cores' work."""
    stages = memory(config).stages
    if stages < 2:
        tile = f"tile {config.tile} and D {config.d}"
        limit = config.hardware.shared_memory.block
        return f"shared memory of {limit} B holds {stages} stage of {tile}; two are needed"
    return None


RULES = (
    *of_module(__name__),
    *bias_rules.RULES,
    *ultra_rules.RULES,
    *rubin_rules.RULES,
    *mma_rules.RULES,
    *tcgen05_rules.RULES,
    stream_k_schedule,
)
