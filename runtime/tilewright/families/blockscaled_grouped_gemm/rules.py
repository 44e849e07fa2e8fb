"""What is legal for a `blockscaled_grouped_gemm` kernel: what is legal for `blockscaled_gemm`'s kernel of a
group's product, with another shared memory.

The comment above a rule names what it rests on.
"""

from __future__ import annotations

from tilewright.configurations.rule import HARDWARE, OURS, cutlass, rule
from tilewright.families.blockscaled_gemm import rules as dense
from tilewright.families.blockscaled_gemm.memory import memory_of_groups
from tilewright.families.blockscaled_grouped_gemm.config import BlockscaledGroupedGemmConfig, product
from tilewright.families.blockscaled_grouped_gemm.problem import OUTPUTS


# op.py: the pairs that its ops multiply. Experts' activations may be wider than their weights, not narrower.
@rule(OURS, "a b", compiles="nobody asks for the pair")
def formats(config: BlockscaledGroupedGemmConfig) -> str | None:
    """A and B are both nvfp4, both mxfp4 or both mxfp8; or A is mxfp8 or mxfp8_e5m2, and B mxfp4."""
    if (config.a, config.b) in OUTPUTS:
        return None
    return f"no op of groups multiplies {config.a} by {config.b}"


# sm100_blockscaled_umma_builder.inl: block-scaled MMAs have M of 128 (one SM) or 256 (two), N of 64, 128, 192
# or 256.
@rule(cutlass("4.2"), "tile")
def tile_sides(config: BlockscaledGroupedGemmConfig) -> str | None:
    """A thread block's tile is 128 rows by 64, 128, 192 or 256 columns."""
    return dense.tcgen05_tile(product(config))


# The scale factors of a tile are whole atoms of 4 along k: 64 elements of NVFP4, 128 of the others
# (sm100_blockscaled_layout.hpp). Tiles of K 768 (sm_103) have another collective of groups.
@rule(
    OURS,
    "tile a b",
    compiles="shallower stages are half-used lines of shared memory, deeper ones too few",
    unless=(formats,),
)
def tile_depth(config: BlockscaledGroupedGemmConfig) -> str | None:
    """Tile K is 128 or 256; of 8-bit operands 128."""
    if product(config).ultra:
        return f"tile K {config.tile.k} is that of another collective, which no kernel of groups has here"
    return dense.tile_depth(product(config))


# sm100_gemm_array_tma_warpspecialized.hpp: "SMEM usage exceeded capacity."; with one stage, loads and the
# tensor cores take turns.
@rule(HARDWARE, "stages tile d", unless=(formats, tile_sides, tile_depth))
def shared_memory(config: BlockscaledGroupedGemmConfig) -> str | None:
    """At least two stages and the epilogue's buffers fit into shared memory."""
    stages, total = memory_of_groups(product(config))
    limit, tile = product(config).hardware.shared_memory.block, f"tile {config.tile} and D {config.d}"
    if stages < 2:
        return f"shared memory of {limit} B holds {max(stages, 0)} stages of {tile}; two are needed"
    if total > limit:
        return f"shared memory {total} B > {limit} B of {config.arch}, with {stages} stages of {tile}"
    return None


RULES = (formats, tile_sides, tile_depth, shared_memory)
