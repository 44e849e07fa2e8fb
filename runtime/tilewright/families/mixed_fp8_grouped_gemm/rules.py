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
    quick_integers,
    tile_sides,
    two_multiply,
)
from tilewright.families.mixed_fp8_grouped_gemm.memory import memory


# mixed_fp8_grouped_gemm/kernel.hpp: the warps that load groups need registers, and none are left for a
# warpgroup that decodes.
@rule(OURS, "schedule")
def decodes_at_will(config: MixedFp8GemmConfig) -> str | None:
    """Warpgroups decode what they multiply, at will, quickly or by parts in turn."""
    if config.schedule in ("at_will", "quick", "parts_in_turn"):
        return None
    return f"a kernel of groups has schedule at_will, quick or parts_in_turn, not {config.schedule}"


# mixed_grouped_gemm/phases.hpp: a queue of tiles says what thread blocks multiply.
@rule(OURS, "balanced")
def whole_tiles(config: MixedFp8GemmConfig) -> str | None:
    """Thread blocks of a kernel of groups have whole tiles."""
    return unsettled(config, "a kernel of groups", {"balanced": False})


# parts_in_turn.hpp: a named barrier passes the turn between two warpgroups.
@rule(OURS, "schedule k_groups")
def one_group_in_turn(config: MixedFp8GemmConfig) -> str | None:
    """Warpgroups that multiply in turn do not divide k."""
    if config.schedule == "at_will" or config.k_groups == 1:
        return None
    return f"schedule {config.schedule} has two warpgroups, and k_groups {config.k_groups} has more"


# mixed_fp8_gemm/mainloop.hpp: each group has stages of its own.
@rule(OURS, "stages k_groups")
def stages_of_groups(config: MixedFp8GemmConfig) -> str | None:
    """k_groups divides the stages."""
    if config.stages == "auto" or config.stages % config.k_groups == 0:
        return None
    return f"{config.stages} stages do not divide among {config.k_groups} groups"


# mixed_fp8_gemm/half_width.hpp: the least instruction for a group's last tile has 32 columns.
@rule(
    OURS, "tile schedule", compiles="an instruction would have more columns than the tile",
    unless=(tile_sides,),
)  # fmt: skip
def columns_of_last_tiles(config: MixedFp8GemmConfig) -> str | None:
    """A tile of quick or parts_in_turn has at least 32 columns."""
    if config.schedule == "at_will" or config.tile.n >= 32:
        return None
    return f"schedule {config.schedule} multiplies 32 columns at least, of a tile that has {config.tile.n}"


# CUDA programming guide, "Compute Capabilities": 227 KB a thread block.
@rule(HARDWARE, "stages tile weight_format", unless=(formats, tile_sides))
def shared_memory(config: MixedFp8GemmConfig) -> str | None:
    """Two stages or more fit into 227 KB, beside the queue of tiles."""
    return misfit_stages(config.tile, memory(config))


RULES = (
    formats, tile_sides, two_multiply, decodes_at_will, whole_tiles, quick_integers, one_group_in_turn,
    stages_of_groups, columns_of_last_tiles, fast_formats, fast_schedule, blocks_of_groups, part_width,
    shared_memory,
)  # fmt: skip
