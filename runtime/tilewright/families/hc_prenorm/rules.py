"""The rules for `hc_prenorm` kernels. All code that asks whether a configuration is legal asks these.

The comment above a rule names its source.
"""

from __future__ import annotations

from tilewright.architectures.table import WGMMA, of_target
from tilewright.configurations.rule import HARDWARE, OURS, of_module, rule
from tilewright.families.hc_prenorm.config import PrenormConfig
from tilewright.families.hc_prenorm.memory import memory

_WGMMA_N = (8, 16, 24, 32, 48, 64, 96, 128)  # of sm90/wgmma_tf32.hpp
_MOST_ROWS = 256
_MOST_SUMS = 64  # registers of a thread, of 255, beside its elements of A and B


# products.hpp: a stage is one box of 128 bytes of A, two of B, and splits of k are whole blocks of 64.
@rule(OURS, "tile")
def depth(config: PrenormConfig) -> str | None:
    """A stage holds 64 of k."""
    return f"a stage holds 64 of k, not {config.tile.k}" if config.tile.k != 64 else None


# PTX ISA, "wgmma.mma_async" and "mma": N is a multiple of 8. cuTensorMapEncodeTiled: a box has at most 256
# rows.
@rule(OURS, "tile mma")
def tile_extents(config: PrenormConfig) -> str | None:
    """N is a multiple of 8, with wgmma one of the listed ones; M is at most 256."""
    m, n, _ = config.tile
    if n % 8:
        return f"the tile's N is a multiple of 8, not {n}"
    if config.mma == "wgmma" and n not in _WGMMA_N:
        return f"wgmma takes an N of {', '.join(map(str, _WGMMA_N))}, not {n}"
    return f"the tile's M is at most {_MOST_ROWS}, not {m}" if m > _MOST_ROWS else None


# products.hpp: a warp has groups of 16 rows; a warpgroup, four warps, multiplies 64 by wgmma.
@rule(OURS, "tile warp_rows mma")
def rows_of_warps(config: PrenormConfig) -> str | None:
    """Whole warps divide the rows of a tile, by wgmma 16 rows each and four at a time."""
    m = config.tile.m
    if config.mma == "wgmma":
        if config.warp_rows != 16:
            return f"a warp has 16 rows of wgmma's 64, not {config.warp_rows}"
        return f"wgmma multiplies 64 rows at a time; {m} is not a multiple" if m % 64 else None
    return f"{m} rows are not a multiple of a warp's {config.warp_rows}" if m % config.warp_rows else None


# wgmma is an instruction of sm_90a alone (PTX ISA, "wgmma.mma_async": target ISA notes).
@rule(HARDWARE, "mma arch")
def wgmma_arch(config: PrenormConfig) -> str | None:
    """Only sm_90a has wgmma."""
    wrong = config.mma == "wgmma" and of_target(config.arch).tensor_core is not WGMMA
    return f"{config.arch} has no wgmma; mma: sync is for any architecture" if wrong else None


# A thread has 255 registers, for sums and for the elements of A of two steps of k.
@rule(OURS, "warp_rows tile", compiles="the kernel would spill registers")
def registers(config: PrenormConfig) -> str | None:
    """A warp's sums are at most 64 registers of a thread."""
    sums = config.warp_rows * config.tile.n // 32
    return f"a thread has {sums} sums; at most {_MOST_SUMS} are possible" if sums > _MOST_SUMS else None


# CUDA programming guide, "Compute Capabilities": 227 KB a thread block, 99 on sm_12x.
@rule(HARDWARE, "stages tile")
def shared_memory(config: PrenormConfig) -> str | None:
    """A thread block has at most 227 KB of shared memory, on sm_12x 99 KB."""
    (stages, total), limit = memory(config), of_target(config.arch).shared_memory.block
    if total > limit or stages < 2:
        return f"two stages or more of {config.tile} do not fit into the {limit:,} bytes of {config.arch}"
    return None


RULES = of_module(__name__)
