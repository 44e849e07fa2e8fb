"""What is legal for a `mixed_fp8_grouped_gemm` kernel: rules of `mixed_fp8_gemm`, with another shared memory.

The comment above a rule names what it rests on.
"""

from __future__ import annotations

from tilewright.configurations.lean_tiles import misfit_stages
from tilewright.configurations.rule import HARDWARE, OURS, rule, unsettled
from tilewright.families.mixed_fp8_gemm.config import MixedFp8GemmConfig
from tilewright.families.mixed_fp8_gemm.rules import (
    blocks_of_groups,
    fast_formats,
    fast_schedule,
    formats,
    part_width,
    tile_sides,
)
from tilewright.families.mixed_fp8_grouped_gemm.memory import memory


# mixed_fp8_grouped_gemm/kernel.hpp: the warps that load groups need registers, and none are left for a
# warpgroup that decodes.
@rule(OURS, "schedule")
def decodes_at_will(config: MixedFp8GemmConfig) -> str | None:
    """No warpgroup decodes for others."""
    return unsettled(config, "a kernel of groups", {"schedule": "at_will"})


# CUDA programming guide, "Compute Capabilities": 227 KB a thread block.
@rule(HARDWARE, "stages tile weight_format", unless=(formats, tile_sides))
def shared_memory(config: MixedFp8GemmConfig) -> str | None:
    """Two stages or more fit into 227 KB, beside the queue of tiles."""
    return misfit_stages(config.tile, memory(config))


RULES = (
    formats, tile_sides, decodes_at_will, fast_formats, fast_schedule, blocks_of_groups,
    part_width, shared_memory,
)  # fmt: skip
