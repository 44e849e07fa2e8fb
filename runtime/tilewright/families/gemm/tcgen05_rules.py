"""The rules for `gemm` kernels of tcgen05 alone (gemm/tcgen05_program.py)."""

from __future__ import annotations

from functools import partial

from tilewright.configurations.rule import HARDWARE, OURS, of_module, rule
from tilewright.families.gemm.config import TCGEN05, GemmConfig
from tilewright.families.gemm.memory import DATA_CENTER_SHARED_MEMORY, memory, sms, tcgen05_columns

TILE_ROWS = 128  # lanes of tensor memory
SWIZZLED_ROWS = 8  # rows of an operand in shared memory that TMA swizzles together

tcgen05_rule = partial(rule, of=TCGEN05)


# PTX ISA, "tcgen05.mma": M of 128 and N in steps of 16 on an SM, M of 256 and N in steps of 32 on two. M of
# 64 has half the rate. The epilogue has a thread for each of 128 rows, and TMA stores 32 columns at a time.
@tcgen05_rule(HARDWARE, "tile schedule swap_ab")
def tcgen05_tile(config: GemmConfig) -> str | None:
    """M of a tcgen05 kernel's tile is 128 for each SM, N a multiple of 32, on one SM with swapped operands of
    16, and at most 256."""
    m, n, _ = config.tile
    step = 16 if config.swap_ab and sms(config) == 1 else 32
    if m != TILE_ROWS:
        return f"a tcgen05 tile has {TILE_ROWS} rows on each SM, not {m}"
    if n % step or n > 256:
        return f"N of this tcgen05 tile is a multiple of {step} up to 256, not {n}"
    return None


# gemm/tcgen05_results.py: TMA stores a D of FP8 in lines of 64 bytes, others in lines of 64 or 128.
@tcgen05_rule(OURS, "tile d swap_ab", unless=(tcgen05_tile,))
def tcgen05_store(config: GemmConfig) -> str | None:
    """N of a tcgen05 kernel's tile is a multiple of 64 if TMA stores a D of FP8."""
    columns, n = tcgen05_columns(config), config.tile.n
    if not config.swap_ab and n % columns:
        return f"TMA stores {columns} columns of D of {config.d} at a time: N is a multiple, {n} is not"
    return None


# tcgen05.mma has cta_group::1 and cta_group::2. Other kernels' schedules divide tiles among warpgroups.
@rule(HARDWARE, "schedule mainloop")
def mma_schedule(config: GemmConfig) -> str | None:
    """A tcgen05 kernel's MMAs run on one SM or on two, schedule 1sm or 2sm; other kernels are cooperative or
    pingpong."""
    legal = ("1sm", "2sm") if config.mainloop == "tcgen05" else ("cooperative", "pingpong")
    if config.schedule not in legal:
        return f"the schedule of {config.mainloop} kernels is {' or '.join(legal)}, not {config.schedule}"
    return None


# CUDA programming guide: 8 thread blocks is the largest portable cluster. The thread blocks of an MMA on two
# SMs are neighbours by rows. Those that share a tile load an equal part of it each.
@tcgen05_rule(HARDWARE, "cluster schedule tile", unless=(tcgen05_tile,))
def tcgen05_cluster(config: GemmConfig) -> str | None:
    """The cluster of a tcgen05 kernel is compiled in: 1 to 8 thread blocks, with powers of two for sides,
    with pairs along M for 2sm, and parts of 8 rows of an operand at least."""
    if config.cluster == "dynamic":
        return "the cluster of a tcgen05 kernel is compiled in, not dynamic"
    m, n = config.cluster
    if m * n > 8 or m & (m - 1) or n & (n - 1):
        return f"cluster {config.cluster} is not of 8 thread blocks at most, with powers of two for sides"
    if m % sms(config):
        return f"cluster {config.cluster} does not hold pairs of thread blocks along M, as 2sm requires"
    for side, extent in (("M", config.tile.n // m), ("N", config.tile.m // n)):
        if extent % SWIZZLED_ROWS:
            return f"{config.cluster} along {side} leaves a thread block {extent} rows, not a multiple of 8"
    return None


# Two stages, so that one is loaded while the other is multiplied; and the hardware's limit.
@tcgen05_rule(HARDWARE, "stages tile d", unless=(tcgen05_tile,))
def tcgen05_memory(config: GemmConfig) -> str | None:
    """At least two stages, and the epilogue's buffers, fit into shared memory."""
    stages, total = memory(config)
    if total > DATA_CENTER_SHARED_MEMORY or stages < 2:
        return f"shared memory {total} B > {DATA_CENTER_SHARED_MEMORY} B, with {max(stages, 2)} stages"
    return None


RULES = of_module(__name__)
