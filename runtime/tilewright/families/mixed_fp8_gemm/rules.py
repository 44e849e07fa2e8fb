"""What is legal for a `mixed_fp8_gemm` kernel: the single statement, asked by all that need to know.

The comment above a rule names what it rests on.
"""

from __future__ import annotations

from tilewright.configurations.lean_tiles import misfit_stages
from tilewright.configurations.rule import HARDWARE, OURS, among, of_module, rule, unsettled
from tilewright.families.mixed_fp8_gemm.config import MixedFp8GemmConfig
from tilewright.families.mixed_fp8_gemm.memory import memory, most_sums, width
from tilewright.families.mixed_fp8_gemm.problem import FORMATS
from tilewright.families.mixed_gemm.problem import FORMATS as PACKED_FORMATS
from tilewright.families.mixed_gemm.rules import misfit_left_sums

COLUMNS = (8, 16, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256)  # of a tile


# decode.hpp: E4M3 has four significant bits, E5M2 three. An element of NVFP4 with its scale has six.
@rule(HARDWARE, "weight_format")
def formats(config: MixedFp8GemmConfig) -> str | None:
    """The weight has a format whose elements FP8 holds exactly."""
    return among("the weight's format", config.weight_format, FORMATS)


# kernel.hpp: a warpgroup has 64 rows, and two multiply. layout.hpp: a stage has 128 of k.
@rule(OURS, "tile")
def tile_sides(config: MixedFp8GemmConfig) -> str | None:
    """M is 64 or 128; N is a multiple of a width of wgmma that is spelt out; K is 128."""
    reasons = (
        among(f"tile {name}", extent, legal)
        for name, extent, legal in zip("MNK", config.tile, ((64, 128), COLUMNS, (128,)), strict=True)
    )
    return next(filter(None, reasons), None)


# ahead.hpp: a thread of the warpgroup that decodes has elements of one of two slices. in_turn.hpp: a named
# barrier passes the turn to the other warpgroup.
@rule(OURS, "schedule tile", unless=(tile_sides,))
def two_multiply(config: MixedFp8GemmConfig) -> str | None:
    """A warpgroup decodes ahead for two others, and two multiply in turn."""
    if config.schedule in ("at_will", "quick") or config.tile.m == 128:
        return None
    m = config.tile.m
    return f"schedule {config.schedule} has two warpgroups that multiply, and a tile of M {m} has one"


# fast.hpp: its sums are multiplied by no scales, so these are powers of two, which E5M2's exponents hold.
@rule(OURS, "fast_accum weight_format", unless=(formats,))
def fast_formats(config: MixedFp8GemmConfig) -> str | None:
    """Sums stay in the tensor core for MXFP4 alone."""
    if config.fast_accum and config.weight_format != "mxfp4":
        return f"scales of {config.weight_format} multiply sums in F32, so fast_accum is false"
    return None


# in_turn.hpp: a stage's sums are promoted once.
@rule(OURS, "schedule weight_format", unless=(formats,))
def whole_stages(config: MixedFp8GemmConfig) -> str | None:
    """A stage that warpgroups multiply in turn has one scale for 128 of k, or MXFP4's."""
    format, group = PACKED_FORMATS[config.weight_format]
    if config.schedule == "in_turn" and format != "mxfp4" and group != 128:
        return f"schedule in_turn promotes 128 of k at once: groups of {config.weight_format} have {group}"
    return None


# quick_int4.hpp: the magnitudes of these integers are bits of E5M2. A part is promoted by one scale of a row.
@rule(OURS, "schedule weight_format", unless=(formats,))
def quick_integers(config: MixedFp8GemmConfig) -> str | None:
    """Parts of the columns are multiplied in turn by int4_g128 alone."""
    if config.schedule != "parts_in_turn" or config.weight_format == "int4_g128":
        return None
    return f"schedule parts_in_turn decodes int4_g128, not {config.weight_format}"


# fast.hpp: all columns are multiplied at once, and no warpgroup decodes ahead.
@rule(OURS, "fast_accum schedule width")
def fast_schedule(config: MixedFp8GemmConfig) -> str | None:
    """Fast sums have no turns and no parts, and are the only ones with schedule quick."""
    if not config.fast_accum:
        return (
            unsettled(config, "schedule quick", {"fast_accum": True}) if config.schedule == "quick" else None
        )
    schedule = "quick" if config.schedule == "quick" else "at_will"
    return unsettled(config, "a kernel with fast_accum", {"schedule": schedule, "width": "auto"})


# balanced.hpp: the named barriers of balanced kernels are those that these schedules leave.
@rule(OURS, "balanced schedule")
def balanced_schedule(config: MixedFp8GemmConfig) -> str | None:
    """Thread blocks have equal work with the schedules for many rows, parts_in_turn and quick."""
    if not config.balanced or config.schedule in ("parts_in_turn", "quick"):
        return None
    return f"a balanced kernel has schedule parts_in_turn or quick, not {config.schedule}"


# mixed_gemm/balanced_phases.hpp, as in `mixed_gemm`: a warpgroup has 64 rows.
@rule(OURS, "tile balanced", unless=(tile_sides,))
def left_sums(config: MixedFp8GemmConfig) -> str | None:
    """A thread of a balanced kernel has at most 16 column groups of sums, or a multiple of 4."""
    return misfit_left_sums(config.tile.n // 8) if config.balanced else None


# kernel.hpp: the warpgroups of a dense kernel all have all of k.
@rule(OURS, "k_groups")
def one_group(config: MixedFp8GemmConfig) -> str | None:
    """Warpgroups do not divide k: splits do."""
    return unsettled(config, "a dense kernel", {"k_groups": 1})


# Sums of blocks of 32 are not those of 128 to the bit. Kernels with two groups differ from others already, so
# that batch-invariant mode leaves them out.
@rule(OURS, "block k_groups weight_format fast_accum")
def blocks_of_groups(config: MixedFp8GemmConfig) -> str | None:
    """Blocks of 32 are MXFP4's, promoted, with two groups of warpgroups."""
    settled = {"weight_format": "mxfp4", "fast_accum": False, "k_groups": 2}
    return unsettled(config, "a kernel with blocks of 32", settled) if config.block == 32 else None


# mainloop.hpp: parts divide a tile's columns. Sums beyond these would spill.
@rule(OURS, "tile width", compiles="the kernel would spill registers", unless=(tile_sides,))
def part_width(config: MixedFp8GemmConfig) -> str | None:
    """A part's columns divide the tile's, and both together are at most 320, or 384 of `parts_in_turn`."""
    columns, part, most = config.tile.n, width(config), most_sums(config)
    if config.fast_accum:
        return None
    if part == 0 or columns % part:
        return f"parts of {config.width} columns do not divide a tile of {columns}"
    if columns + part > most:
        return f"sums of {columns} columns and of parts of {part} are more than those of {most} together"
    return None


# CUDA programming guide, "Compute Capabilities": 227 KB a thread block.
@rule(HARDWARE, "stages tile weight_format", unless=(formats, tile_sides))
def shared_memory(config: MixedFp8GemmConfig) -> str | None:
    """Two stages or more fit into 227 KB."""
    return misfit_stages(config.tile, memory(config))


# kernel.hpp: sums of a split k, and those that are activated, go through the activations' stages.
@rule(OURS, "stages tile", unless=(formats, tile_sides, shared_memory))
def room_for_sums(config: MixedFp8GemmConfig) -> str | None:
    """The activations' stages hold a tile's sums."""
    m, n, k = config.tile
    room, sums = memory(config).stages * n * k, 4 * m * n
    return f"a tile's sums take {sums:,} bytes, the stages of activations {room:,}" if sums > room else None


RULES = of_module(__name__)
