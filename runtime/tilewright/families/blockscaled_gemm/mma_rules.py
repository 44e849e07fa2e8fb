"""The rules for `blockscaled_gemm` kernels with our mainloop of mma.sync alone."""

from __future__ import annotations

from functools import partial

from tilewright.configurations.rule import OURS, among, of_module, rule
from tilewright.families.blockscaled_gemm.config import SM120, BlockscaledGemmConfig, by_mma
from tilewright.families.blockscaled_gemm.mma_memory import warpgroups
from tilewright.formats.types import bits

MOST_SUMS = 128  # of a thread, whose 232 registers hold fragments and scale factors beside them

mma_rule = partial(rule, of=by_mma)


# sm120/mma.hpp: only sm_12x has mma.sync with block scales.
@mma_rule(OURS, "mainloop arch", compiles="the instruction would be computed in software")
def mma_arch(config: BlockscaledGemmConfig) -> str | None:
    """The mainloop mma is for sm_12x."""
    return None if config.architecture is SM120 else f"the mainloop mma is for sm_12x, not {config.arch}"


# blockscaled_gemm/mma_kernel.hpp has no epilogue that makes scale factors.
@mma_rule(OURS, "d mainloop")
def mma_output(config: BlockscaledGemmConfig) -> str | None:
    """Kernels of mma.sync do not quantise D."""
    return f"the mainloop mma does not quantise D to {config.d}" if config.quantizes else None


# sm120/scale_words.hpp: a tile's rows and columns lie within 128 that share atoms of scale factors, or are
# whole 128s.
@mma_rule(OURS, "tile")
def mma_tile(config: BlockscaledGemmConfig) -> str | None:
    """Tile M of mma.sync is 64, 128 or 256, N 8, 16, 32, 64, 128 or 256."""
    m, n, _ = config.tile
    return among("tile M", m, (64, 128, 256)) or among("tile N", n, (8, 16, 32, 64, 128, 256))


# blockscaled_gemm/mma_kernel.hpp: a stage has one or two boxes of 128 bytes of k, or of FP4 half of one.
@mma_rule(OURS, "tile a b")
def mma_depth(config: BlockscaledGemmConfig) -> str | None:
    """Tile K of mma.sync is 128, 256 or 512 (8-bit operands: 128 or 256)."""
    depths = (128, 256, 512) if bits(config.a) == bits(config.b) == 4 else (128, 256)
    return among(f"tile K of {config.a} x {config.b}", config.tile.k, depths)


# MOST_SUMS: beside more accumulators, ptxas would keep fragments and scale factors in local memory.
@mma_rule(OURS, "tile", compiles="the accumulators would be kept in local memory", unless=(mma_tile,))
def mma_accumulators(config: BlockscaledGemmConfig) -> str | None:
    """A thread of mma.sync has at most 128 accumulators."""
    consumers, rows, columns = warpgroups(config)
    if (sums := rows * columns // 2) > MOST_SUMS:
        m, n, _ = config.tile
        return f"tile {m}x{n} on {consumers * 128} threads takes {sums} accumulators a thread > {MOST_SUMS}"
    return None


TILES = (mma_arch, mma_output, mma_tile, mma_depth)
RULES = of_module(__name__)
