"""What is legal for a `mixed_grouped_gemm` kernel: the rules of `mixed_gemm`, with another shared memory.

The comment above a rule names what it rests on.
"""

from __future__ import annotations

from tilewright.configurations.lean_tiles import misfit_stages
from tilewright.configurations.rule import HARDWARE, OURS, among, rule, unsettled
from tilewright.families.mixed_gemm.config import WGMMA, MixedGemmConfig
from tilewright.families.mixed_gemm.rules import (
    registers,
    schedule_of_mainloop,
    stream_memory,
    stream_room,
    stream_tile,
    tile_depth,
    tile_sides,
    types,
    warpgroups_of_block,
    warps_of_mainloop,
)
from tilewright.families.mixed_grouped_gemm.memory import memory


# op.py: D has A's type.
@rule(OURS, "d")
def type_of_d(config: MixedGemmConfig) -> str | None:
    """D has the type of A."""
    return unsettled(config, "a kernel of groups", {"d": "same"})


# balanced_phases.hpp: the host divides the stages of all tiles, whose number it does not know here.
@rule(OURS, "mainloop")
def mainloop(config: MixedGemmConfig) -> str | None:
    """The mainloop is wgmma or stream."""
    return among("the mainloop of a kernel of groups", config.mainloop, ("wgmma", "stream"))


# CUDA programming guide, "Compute Capabilities": 227 KB a thread block.
@rule(HARDWARE, "stages tile weight_format", of=WGMMA)
def shared_memory(config: MixedGemmConfig) -> str | None:
    """Two stages or more fit into 227 KB, beside the queue of tiles and the sums of groups of warpgroups."""
    if tile_sides(config) or tile_depth(config) or warpgroups_of_block(config):
        return None
    return misfit_stages(config.tile, memory(config))


RULES = (
    types,
    type_of_d,
    mainloop,
    tile_sides,
    warpgroups_of_block,
    tile_depth,
    registers,
    shared_memory,
    stream_tile,
    warps_of_mainloop,
    schedule_of_mainloop,
    stream_memory,
    stream_room,
)
