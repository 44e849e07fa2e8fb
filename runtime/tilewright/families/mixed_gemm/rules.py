"""What is legal for a `mixed_gemm` kernel: the single statement, asked by all that need to know.

The comment above a rule names what it rests on.
"""

from __future__ import annotations

from tilewright import weight_formats
from tilewright.configurations.lean_tiles import misfit_stages
from tilewright.configurations.rule import HARDWARE, OURS, among, of_module, rule, unsettled
from tilewright.families.mixed_gemm.config import (
    STREAM,
    WGMMA,
    MixedGemmConfig,
    has_40_columns,
    is_gated,
    with_mainloop,
)
from tilewright.families.mixed_gemm.memory import (
    activation_bytes,
    consumers,
    memory,
    stream_sums,
    stream_weights,
    warpgroups,
)
from tilewright.families.mixed_gemm.problem import FORMATS, TYPES_OF_A

# Widths of mixed_gemm/wgmma.hpp.
_WIDTHS = (8, 16, 24, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 256)
# Registers for sums, by warpgroups that multiply, of a thread's 232 (three: 160, four: 112). Two sets of 16
# hold decoded weights, or of 8 where four warpgroups decode MXFP4 for 32 columns and more (mainloop.hpp).
_SUMS = {1: 128, 2: 128, 3: 64, 4: 16}
_SUMS_OF_FOUR_OF_MXFP4 = 32


# decode.hpp: UE8M0 has BF16's range; F16's is too small for it.
@rule(HARDWARE, "a weight_format")
def types(config: MixedGemmConfig) -> str | None:
    """MXFP4 is multiplied by BF16 alone."""
    legal = TYPES_OF_A[config.weight_format]
    return (
        f"{config.weight_format} is multiplied by {' or '.join(legal)}, not {config.a}"
        if config.a not in legal
        else None
    )


# wgmma.mma_async is 64 rows high. kernel.hpp: one warpgroup has 64 rows, two have 128 or 256, three have 192.
@rule(OURS, "tile mainloop activation", of=WGMMA)
def tile_sides(config: MixedGemmConfig) -> str | None:
    """M is 64, 128, 192 or 256; N is one of the widths of wgmma that are spelt out, and 40 of gated balanced
    kernels."""
    m, n, _ = config.tile
    if m not in (64, 128, 192, 256):
        return f"tile M {m} is not 64, 128, 192 or 256"
    if n not in _WIDTHS and not has_40_columns(config):
        return f"tile N {n} is not one of {', '.join(map(str, _WIDTHS))}"
    return None


# kernel.hpp: four warpgroups and the producer's have 65,536 registers. mainloop.hpp: each group has stages of
# its own.
@rule(OURS, "tile k_groups stages", of=WGMMA)
def warpgroups_of_block(config: MixedGemmConfig) -> str | None:
    """At most four warpgroups multiply, and k_groups divides the stages."""
    if tile_sides(config):
        return None
    if (count := consumers(config)) > 4:
        return f"{count} warpgroups would multiply, of at most 4"
    if config.stages != "auto" and config.stages % config.k_groups:
        return f"{config.stages} stages do not divide among {config.k_groups} groups"
    return None


# layout.hpp: a stage has one or two pieces of 64 of k. Packed weights have an even number of pieces.
@rule(OURS, "tile", of=WGMMA)
def tile_depth(config: MixedGemmConfig) -> str | None:
    """K is 64 or 128."""
    return f"tile K {config.tile.k} is not 64 or 128" if config.tile.k not in (64, 128) else None


# 65,536 registers of an SM, divided among the warpgroups. Sums beyond these spill.
@rule(OURS, "tile k_groups weight_format", compiles="the kernel would spill registers", of=WGMMA)
def registers(config: MixedGemmConfig) -> str | None:
    """A thread has at most 128 registers of sums, of three warpgroups 64, of four 16, or 32 with MXFP4."""
    if tile_sides(config) or warpgroups_of_block(config):
        return None
    _, rows, columns = warpgroups(config)
    sums, most = rows * columns // 2, _SUMS[consumers(config)]
    if consumers(config) == 4 and config.weight_format == "mxfp4":
        most = _SUMS_OF_FOUR_OF_MXFP4
    return f"{sums} sums to a thread, of at most {most}" if sums > most else None


# CUDA programming guide, "Compute Capabilities": 227 KB a thread block.
@rule(HARDWARE, "stages tile weight_format", of=WGMMA)
def shared_memory(config: MixedGemmConfig) -> str | None:
    """Two stages or more fit into 227 KB."""
    if tile_sides(config) or tile_depth(config) or warpgroups_of_block(config):
        return None
    return misfit_stages(config.tile, memory(config))


# phases.hpp: sums of a split k, those that are activated, and those of groups of warpgroups go through the
# activations' stages.
@rule(OURS, "stages tile k_groups", of=with_mainloop("wgmma"))
def room_for_sums(config: MixedGemmConfig) -> str | None:
    """The activations' stages hold a tile's sums, of each of its k_groups."""
    if any(rule(config) for rule in (tile_sides, tile_depth, warpgroups_of_block, registers, shared_memory)):
        return None
    room = memory(config).stages * activation_bytes(config)
    sums = 4 * config.tile.m * config.tile.n * config.k_groups
    return f"a tile's sums take {sums:,} bytes, the stages of activations {room:,}" if sums > room else None


# stream_warp.hpp: a warp takes units of 64 or 128 rows of W by 128 of k; mma.sync.m16n8 has 8 rows of D.
@rule(OURS, "tile", of=STREAM)
def stream_tile(config: MixedGemmConfig) -> str | None:
    """A stream kernel's tile is 64 or 128 by 8, 16, 24 or 32 by 128."""
    reasons = (
        among(f"{name} of a stream tile", extent, legal)
        for name, extent, legal in zip("MNK", config.tile, ((64, 128), (8, 16, 24, 32), (128,)), strict=True)
    )
    return next(filter(None, reasons), None)


# stream_warp.hpp: the warps of a thread block divide k. mixed_gemm.hpp has warpgroups instead.
# balanced_phases.hpp: a warpgroup has all of its rows' sums, and TMA stores D.
@rule(OURS, "mainloop k_groups warps d")
def warps_of_mainloop(config: MixedGemmConfig) -> str | None:
    """A stream kernel has no k_groups, a wgmma kernel no warps, a balanced one neither, and D of A's type."""
    settled: dict[str, dict[str, object]] = {
        "stream": {"k_groups": 1},
        "wgmma": {"warps": 8},
        "balanced": {"k_groups": 1, "warps": 8, "d": "same"},
    }
    return unsettled(config, f"a {config.mainloop} kernel", settled[config.mainloop])


def misfit_left_sums(column_groups: int) -> str | None:
    """Why a thread of a balanced kernel cannot add `column_groups` column groups that another thread block
    left; None if it can. It loads up to 16 at once, and 8 or 4 of more."""
    if column_groups <= 16 or column_groups % 4 == 0:
        return None
    return f"{column_groups} column groups of sums to a thread: more than 16, and no multiple of 4"


# balanced_phases.hpp: kGroupsPerLoad divides the column groups of a thread's sums.
@rule(OURS, "tile mainloop", of=with_mainloop("balanced"))
def left_sums(config: MixedGemmConfig) -> str | None:
    """A thread of a balanced kernel has at most 16 column groups of sums, or a multiple of 4."""
    if tile_sides(config) or warpgroups_of_block(config):
        return None
    _, rows, columns = warpgroups(config)
    return misfit_left_sums(rows * columns // 8)


# early.hpp: a warpgroup has 64 rows of W, a stage two pieces of 4-bit codes. Two sets of 16 registers hold
# decoded weights, and 8 hold loaded words.
@rule(OURS, "schedule mainloop tile weight_format k_groups")
def schedule_of_mainloop(config: MixedGemmConfig) -> str | None:
    """A schedule other than at_will has 64 rows for each warpgroup, up to 128 columns, 128 of k, and 4-bit
    weights; in_turn several warpgroups, and no k_groups."""
    if config.schedule == "at_will":
        return None
    if config.mainloop == "stream":
        return f"schedule {config.schedule} is not for stream kernels"
    if tile_sides(config) or warpgroups_of_block(config):
        return None
    if weight_formats.FORMATS[FORMATS[config.weight_format][0]].bits != 4:
        return f"schedule {config.schedule} is for 4-bit weights, not {config.weight_format}"
    consumers_of_group, rows, columns = warpgroups(config)
    if rows != 1 or columns > 128 or config.tile.k != 128:
        tile = f"{config.tile}, {rows * 64} rows to a warpgroup"
        return f"schedule {config.schedule} is not for a tile of {tile}"
    if config.schedule == "in_turn" and config.k_groups > 1:
        return "schedule in_turn is not for k_groups, which multiply different numbers of stages"
    if config.schedule == "in_turn" and consumers_of_group == 1:
        return "one warpgroup has no turns"
    return None


# sm90/gated_epilogue.hpp: boxes of D have elements of 16 bits.
@rule(OURS, "activation d")
def gated_type(config: MixedGemmConfig) -> str | None:
    """A gated kernel has D of A's type."""
    return unsettled(config, "a gated kernel", {"d": "same"}) if is_gated(config) else None


# CUDA programming guide, "Compute Capabilities": 227 KB a thread block.
@rule(HARDWARE, "stages warps tile weight_format", of=STREAM, unless=(stream_tile,))
def stream_memory(config: MixedGemmConfig) -> str | None:
    """Two stages or more of each warp of a stream kernel fit into 227 KB."""
    return misfit_stages(f"{config.tile} for each of {config.warps} warps", memory(config))


# stream_warp.hpp: a warp's sums lie where its stages of weights were.
@rule(OURS, "stages tile weight_format", of=STREAM, unless=(stream_tile, stream_memory))
def stream_room(config: MixedGemmConfig) -> str | None:
    """The stages of weights of a stream kernel's warp hold its sums."""
    room, sums = memory(config).stages * stream_weights(config), stream_sums(config)
    return f"a warp's sums take {sums:,} bytes, its stages of weights {room:,}" if sums > room else None


RULES = of_module(__name__)
