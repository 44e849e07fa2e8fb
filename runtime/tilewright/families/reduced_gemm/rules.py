"""The rules for `reduced_gemm` kernels. All code that asks whether a configuration is legal asks these.

The comment above a rule names its source.
"""

from __future__ import annotations

from tilewright.configurations.rule import HARDWARE, OURS, of_module, rule
from tilewright.families.reduced_gemm.config import K, ReducedConfig, by_mma
from tilewright.families.reduced_gemm.memory import block_bytes, memory

# The most sums of a thread, which has 232 registers: with more, the compiler spills. Operands of mma.sync
# need registers, too.
_ACCUMULATORS, _MMA_ACCUMULATORS = 176, 128
_BOX_ROWS = 256


# reduced_gemm/kernel.hpp: a stage is one box of 128 bytes of k of either operand.
@rule(OURS, "tile")
def depth(config: ReducedConfig) -> str | None:
    """A stage holds 64 of k."""
    return f"a stage holds {K} of k, not {config.tile.k}" if config.tile.k != K else None


# reduced_gemm/kernel.hpp: two warpgroups halve the rows of a tile if each half is a multiple of 64, else its
# columns.
# cuTensorMapEncodeTiled: a box has 256 rows at most.
@rule(HARDWARE, "tile")
def tile_extents(config: ReducedConfig) -> str | None:
    """M is 128, 192 or 256, and N a multiple of 8 (of 16 beside an M of 192), at most 256."""
    m, n, _ = config.tile
    if m not in (128, 192, 256):
        return f"the tile's M is 128, 192 or 256, not {m}"
    multiple = 16 if m == 192 else 8
    if n % multiple or n > _BOX_ROWS:
        return f"the tile's N is a multiple of {multiple} up to {_BOX_ROWS} beside an M of {m}, not {n}"
    return None


# setmaxnreg gives a consumer thread 232 registers.
@rule(OURS, "tile", compiles="the compiler would spill")
def registers(config: ReducedConfig) -> str | None:
    """The accumulators of 256 threads fit their registers."""
    count, most = config.tile.m * config.tile.n // 256, _MMA_ACCUMULATORS if by_mma(config) else _ACCUMULATORS
    return f"{count} accumulators a thread > {most}" if count > most else None


# sm90/pipeline.hpp: the ring needs two stages; and the hardware's limit.
@rule(HARDWARE, "tile", unless=(tile_extents,))
def shared_memory(config: ReducedConfig) -> str | None:
    """At least two stages fit into shared memory."""
    if memory(config).stages < 2:
        return f"two stages of tile {config.tile} are more than the {block_bytes(config)} B of {config.arch}"
    return None


RULES = of_module(__name__)
