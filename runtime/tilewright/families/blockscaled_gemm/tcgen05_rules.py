"""The rules for `blockscaled_gemm` kernels with our mainloop of tcgen05 alone
(blockscaled_gemm/tcgen05_program.py)."""

from __future__ import annotations

from functools import partial

from tilewright.configurations.rule import HARDWARE, OURS, among, of_module, rule
from tilewright.families.blockscaled_gemm.config import (
    TCGEN05,
    ULTRA_K,
    BlockscaledGemmConfig,
    by_tcgen05,
)
from tilewright.formats.types import bits

MOST_BLOCKS = 8  # thread blocks of a cluster (CUDA programming guide: the largest portable one)

cute_dsl_rule = partial(rule, of=by_tcgen05)


# PTX ISA, "tcgen05.mma": sm_100, sm_103 and sm_110 alone have it.
@cute_dsl_rule(HARDWARE, "mainloop arch")
def cute_dsl_arch(config: BlockscaledGemmConfig) -> str | None:
    """The mainloop tcgen05 is for sm_100, sm_103 and sm_110."""
    if config.architecture is TCGEN05:
        return None
    return f"the mainloop tcgen05 is for sm_100, sm_103 and sm_110, not {config.arch}"


# The program loads FP4 packed, which kind::mxf8f6f4 beside FP8 does not read.
@cute_dsl_rule(OURS, "a b mainloop")
def cute_dsl_operands(config: BlockscaledGemmConfig) -> str | None:
    """A and B of the mainloop tcgen05 have elements of the same size."""
    if config.mixes_bits:
        return f"the mainloop tcgen05 takes operands of one size, not {config.a} x {config.b}"
    return None


# gemm/tcgen05_results.py has no epilogue that makes scale factors.
@cute_dsl_rule(OURS, "d mainloop")
def cute_dsl_output(config: BlockscaledGemmConfig) -> str | None:
    """D of kernels with the mainloop tcgen05 has no scale factors."""
    return f"the mainloop tcgen05 makes no scale factors of D ({config.d})" if config.quantizes else None


# A tile has whole atoms of scale factors of 128 rows. A row of a stage is a swizzled line of 128 bytes. TMA
# stores 32 columns of D at a time. Of fewer columns than 64, other tiles' scale factors would begin within an
# atom, where nobody says whether MMAs read them: a launch has one column of such tiles.
@cute_dsl_rule(OURS, "tile a schedule swap_ab mainloop", unless=(cute_dsl_operands,))
def cute_dsl_tile(config: BlockscaledGemmConfig) -> str | None:
    """A tile of the mainloop tcgen05 is 128 rows by 64, 128 or 256 columns, on one SM with swapped operands
    also 8, 16 or 32, and 128 bytes of k. On sm_103, K of FP4 may be 768, and N is then 128 or 256."""
    narrow = (8, 16, 32) if config.swap_ab and config.schedule == "1sm" else ()
    columns = (128, 256) if config.ultra else (*narrow, 64, 128, 256)
    reason = among("tile N of the mainloop tcgen05", config.tile.n, columns)
    depths = (1024 // bits(config.a), *((ULTRA_K,) if bits(config.a) == 4 else ()))
    return reason or among(f"tile K of {config.a} with the mainloop tcgen05", config.tile.k, depths)


# blockscaled_gemm/tcgen05_stores.py stores 16 or 32 bytes at a time, or by TMA.
@cute_dsl_rule(OURS, "store mainloop")
def cute_dsl_store(config: BlockscaledGemmConfig) -> str | None:
    """Kernels with the mainloop tcgen05 store D by TMA, or 16 or 32 bytes at a time; swapped ones neither."""
    stores = ("tma",) if config.swap_ab else ("tma", "direct", "direct_256")
    swapped = ", swapped" if config.swap_ab else ""
    return among(f"store of the mainloop tcgen05{swapped}", config.store, stores)


# CUDA programming guide: 8 thread blocks is the largest portable cluster. Loads are divided by its sides.
@cute_dsl_rule(HARDWARE, "cluster mainloop")
def cute_dsl_cluster(config: BlockscaledGemmConfig) -> str | None:
    """The cluster of the mainloop tcgen05 is compiled in, with at most 8 thread blocks."""
    if config.cluster == "dynamic":
        return "the cluster of the mainloop tcgen05 is compiled in, not dynamic"
    if config.cluster.m * config.cluster.n > MOST_BLOCKS:
        return f"cluster {config.cluster} has more than {MOST_BLOCKS} thread blocks"
    return None


TILES = (cute_dsl_arch, cute_dsl_operands, cute_dsl_output, cute_dsl_tile)
RULES = of_module(__name__)
