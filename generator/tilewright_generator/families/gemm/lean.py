"""What is legal for a `gemm` kernel with a mainloop of ours, and its shared memory
(`families/lean_tiles.py`)."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from tilewright.types import bits
from tilewright_generator.families import lean_tiles
from tilewright_generator.families.gemm.config import GemmConfig, k_contiguous, lean
from tilewright_generator.families.lean_tiles import (
    BARRIER_BYTES,
    BOX_BYTES,
    MOST_STAGES,
    SHARED_MEMORY,
    Warpgroups,
    cooperative,
    piece_columns,
    shared_piece_columns,
)
from tilewright_generator.families.rule import HARDWARE, OURS, of_module, rule

_ACCUMULATORS = 176  # of a thread's 232 registers; beyond, the compiler spills


def warpgroups(config: GemmConfig) -> Warpgroups:
    """As gemm/lean_kernel.hpp has it: a tile each, or a part of one."""
    m, n, _ = config.tile
    return Warpgroups(2, m // 64, n) if config.schedule == "pingpong" else cooperative(m, n)


def store_bytes(config: GemmConfig) -> int:
    """Bytes of shared memory in which the epilogue lays out what TMA stores."""
    return lean_tiles.store_bytes(warpgroups(config), bits(config.d), config.swap_ab)


def addend_barrier_bytes(config: GemmConfig) -> int:
    """Bytes of the barriers at which a C of 16 bits arrives, in the buffers of what TMA stores."""
    divided = warpgroups(config)
    warps = 1 if config.swap_ab else 4  # that store by themselves
    buffers = divided.consumers * warps * lean_tiles.store_buffers(divided, config.swap_ab)
    return 8 * buffers if bits(config.d) == 16 else 0


def stage_bytes(config: GemmConfig) -> int:
    """Bytes of A and B that one stage holds."""
    return (config.tile.m + config.tile.n) * boxes(config) * BOX_BYTES


def boxes(config: GemmConfig) -> int:
    """Boxes of k in a stage."""
    return config.tile.k * bits(config.a) // 8 // BOX_BYTES


@lru_cache(maxsize=1 << 12)
def memory(config: GemmConfig) -> tuple[int, int]:
    """Stages, and bytes of dynamic shared memory of a thread block."""
    stage, stores = stage_bytes(config), store_bytes(config) + addend_barrier_bytes(config)
    fitting = min(MOST_STAGES, (SHARED_MEMORY - stores) // (stage + BARRIER_BYTES))
    stages = fitting if config.stages == "auto" else config.stages
    return stages, stages * (stage + BARRIER_BYTES) + stores


def exchanges(config: GemmConfig) -> bool:
    """Whether the sums fit into the stages' memory: to be added up along k, and for any epilogue."""
    m, n, _ = config.tile
    return config.schedule == "cooperative" and 4 * m * n <= memory(config)[0] * stage_bytes(config)


def facts(config: GemmConfig) -> dict[str, Any]:
    """What the runtime needs of a lean kernel besides what it needs of any."""
    _, rows, columns = warpgroups(config)
    return {
        "cluster_multiple": [1, 1],
        "splits": exchanges(config),
        "pieces": rows * (columns // shared_piece_columns(columns, config.swap_ab, bits(config.d))),
    }


# sm90/elements.hpp has operands of 16 and 8 bits; CUTLASS's kernels take the others.
@rule(OURS, "a", of=lean)
def lean_operands(config: GemmConfig) -> str | None:
    """A lean kernel multiplies 16-bit or FP8 operands."""
    return f"the lean mainloop has no {config.a} operands" if config.a in ("tf32", "s8") else None


# gemm/lean.hpp: both are arguments of a launch.
@rule(
    OURS,
    "cluster scheduler",
    compiles="the kernel would be the same: a tactic gives its cluster and splits",
    of=lean,
)
def lean_cluster(config: GemmConfig) -> str | None:
    """A lean kernel's cluster is dynamic, and it splits k over a cluster, without stream-K."""
    if config.cluster != "dynamic":
        return f"clusters of lean kernels are a run-time argument: cluster is dynamic, not {config.cluster}"
    if config.scheduler == "stream_k":
        return "lean kernels split k over a cluster, at run time: they have no stream_k"
    return None


# gemm/lean_kernel.hpp: where 64 rows do not divide into two, the warpgroups of a cooperative kernel halve the
# columns. sm90/epilogue.hpp: rows of 32 and 64 bytes are swizzled. sm90/wgmma.hpp: boxes have 128 bytes of
# rows.
@rule(OURS, "tile schedule d layout", of=lean)
def lean_columns(config: GemmConfig) -> str | None:
    """Each warpgroup of a lean kernel has a multiple of 8 columns: of 32 where it stores FP8 with n along
    them, of 64 where the operand whose rows they are does not have k contiguous."""
    m, n, _ = config.tile
    if config.schedule == "cooperative" and m == 192 and n % 16:
        return f"two warpgroups divide the columns of a tile of 192 rows: N is a multiple of 16, not {n}"
    columns = warpgroups(config).columns
    if bits(config.d) == 8 and not config.swap_ab and columns % 32:
        return f"{columns} columns of a warpgroup are not a multiple of 32, as rows of {config.d} are stored"
    if not k_contiguous(config)[1] and columns % 64:
        return (
            f"{columns} columns of a warpgroup are not a multiple of 64: in layout {config.layout} the "
            "operand whose rows they are comes in boxes of so many"
        )
    return None


# sm90/pipeline.hpp: an operand's stage is one box of 128 bytes a row, or two.
@rule(OURS, "tile a", compiles="a stage is made of boxes of 128 bytes, one or two", of=lean)
def lean_depth(config: GemmConfig) -> str | None:
    """A lean tile's K is 128 or 256 bytes: one or two boxes."""
    size = config.tile.k * bits(config.a) // 8
    if size not in (BOX_BYTES, 2 * BOX_BYTES):
        return f"tile K {config.tile.k} of {config.a} is {size} bytes, not {BOX_BYTES} or {2 * BOX_BYTES}"
    return None


# sm90/epilogue.hpp: a row of a piece is an odd number of 16-byte units, or 2, 4 or 8 of them.
@rule(OURS, "tile schedule", compiles="rows of 16 bytes would be stored slowly", of=lean)
def lean_pieces(config: GemmConfig) -> str | None:
    """What a warpgroup of a lean kernel stores divides into pieces of at least 16 columns."""
    columns = warpgroups(config).columns
    if columns > 16 and piece_columns(columns, config.swap_ab) == 8:
        return f"{columns} columns of a warpgroup divide only into pieces of 8"
    return None


# setmaxnreg gives a consumer thread 232 registers; FP8 sums that are promoted are held twice.
@rule(OURS, "tile fast_accum schedule", compiles="the compiler would spill", of=lean)
def lean_registers(config: GemmConfig) -> str | None:
    """The accumulators of a lean kernel fit the registers of its threads."""
    _, rows, columns = warpgroups(config)
    twice = bits(config.a) == 8 and not config.fast_accum
    accumulators = rows * columns // 2 * (2 if twice else 1)
    if accumulators > _ACCUMULATORS:
        held = " twice (fast_accum is off)" if twice else ""
        return f"tile {config.tile} takes {accumulators} registers a thread{held} > {_ACCUMULATORS}"
    return None


# sm90/pipeline.hpp: the ring needs two stages; and the hardware's limit.
@rule(HARDWARE, "stages tile", of=lean)
def lean_memory(config: GemmConfig) -> str | None:
    """At least two stages of a lean kernel, and what it stores from, fit into shared memory."""
    stages, total = memory(config)
    if total > SHARED_MEMORY or stages < 2:
        return f"shared memory {total} B > {SHARED_MEMORY} B of sm_90, with {max(stages, 2)} stages"
    return None


# gemm/lean_kernel.hpp: bias is a run-time argument; a C of D's 16 bits comes in boxes, any other one goes
# through the stages' memory, as D of F32 does.
@rule(OURS, "bias c d tile", compiles="the kernel would not do what its table says", of=lean)
def lean_epilogue(config: GemmConfig) -> str | None:
    """A lean kernel takes a bias, and a C: one that is pingpong, or whose sums do not fit into its stages,
    where D has 16 bits."""
    if not config.bias:
        return "lean kernels add a bias where a call gives one: bias is true"
    if lean_depth(config) or lean_registers(config) or lean_memory(config):
        return None  # their reasons say it better
    if exchanges(config) or bits(config.d) == 16:
        return None if config.c == "same" else "the kernel adds C where a call gives one: c is same"
    why = f"the sums of {config.schedule} tile {config.tile} do not go through its {memory(config)[0]} stages"
    if config.c != "none":
        return f"{why}: c is none"
    return f"{why}: d is not f32" if config.d == "f32" else None


LEAN_RULES = of_module(__name__)
