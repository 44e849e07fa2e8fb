"""What is legal for an `mqa_logits` kernel. The comment above a rule names what it rests on."""

from __future__ import annotations

from dataclasses import fields
from math import lcm
from operator import attrgetter

from tilewright_generator.families.mqa_logits.config import MqaLogitsConfig
from tilewright_generator.families.rule import HARDWARE, OURS, of_module, rule
from tilewright_generator.families.shared import shared_memory

_ACCUMULATORS = {1: 192, 2: 192, 3: 112, 4: 96}  # and weights, by warpgroups: of what setmaxnreg gives
_OF_SCHEDULES = "form heads head_dim q d mma queries pieces run warpgroups stages"
_tiled = attrgetter("tiled")


# schedule.hpp knows of lengths alone.
@rule(OURS, _OF_SCHEDULES, compiles="they would mean nothing", of=lambda config: not config.tiled)
def schedule_alone(config: MqaLogitsConfig) -> str | None:
    """A schedule has no heads, tiles or types."""
    plain = MqaLogitsConfig(config.arch, config.form, pdl=config.pdl)
    given = [one.name for one in fields(config) if getattr(config, one.name) != getattr(plain, one.name)]
    return f"a schedule has no {', '.join(given)}" if given else None


# PTX ISA, "wgmma.mma_async": sm_90a; "mma.sync" with block scales: sm_12x. fp4.hpp emulates it on sm_90a.
@rule(HARDWARE, "mma q arch", of=_tiled)
def instruction_arch(config: MqaLogitsConfig) -> str | None:
    """wgmma is sm_90a's; block scales are FP4's, on sm_12x (emulated on sm_90a)."""
    if config.mma == "wgmma" and config.arch != "sm_90a":
        return f"{config.arch} has no wgmma; mma is mma_sync, or block_scaled of FP4 on sm_120f"
    wrong = config.mma == "block_scaled" and (config.q != "mxfp4" or config.arch == "sm_100f")
    given = f"{config.q} on {config.arch}"
    return f"block_scaled multiplies mxfp4, on sm_120f and sm_90a, not {given}" if wrong else None


# fp4.hpp: a thread decodes 16 elements of a key at least.
@rule(OURS, "q head_dim", of=lambda config: config.q == "mxfp4")
def fp4_heads(config: MqaLogitsConfig) -> str | None:
    """Heads of FP4 have 64 or 128 elements."""
    return "heads of FP4 have 64 or 128 elements, not 32" if config.head_dim == 32 else None


# reduction.hpp halves the sums of a quad; wgmma has at most 256 columns, and a box of TMA as many rows.
@rule(OURS, "queries heads pieces")
def query_block(config: MqaLogitsConfig) -> str | None:
    """A tile has a power of two of queries, at most 256 columns, and whole queries in each piece."""
    queries, columns = config.queries, config.columns
    if queries & (queries - 1):
        return f"queries are a power of two, not {queries}"
    if columns > 256:
        return f"{queries} queries of {config.heads} heads are {columns} columns > 256"
    fits = config.pieces <= queries
    return None if fits else f"{queries} queries do not divide into {config.pieces} pieces"


# kernel.hpp: setmaxnreg gives 224, 152 or 104 registers to a thread that multiplies, of 2, 3 or 4 warpgroups.
@rule(OURS, "queries heads warpgroups pieces", compiles="the compiler would spill", of=_tiled)
def register_file(config: MqaLogitsConfig) -> str | None:
    """Products and weights fit the registers of a thread."""
    found, limit = config.registers, _ACCUMULATORS[config.warpgroups]
    return f"products and weights take {found} registers a thread > {limit}" if found > limit else None


# kernel.hpp: a warpgroup's next tile is loaded while it works, of tiles in a row while it works at two. A
# barrier tells a phase from the next one only: whoever waits for a stage waits for all its tiles.
@rule(OURS, "stages warpgroups run", of=_tiled)
def stages_of_warpgroups(config: MqaLogitsConfig) -> str | None:
    """There are more stages than warpgroups, of tiles in a row than twice as many, and as many for each."""
    stages, at_work, each = config.stages, config.warpgroups * min(config.run, 2), lcm(config.warpgroups, 2)
    if stages % each:
        return f"{stages} stages are no multiple of {each}: one warpgroup's, one loader's each"
    return f"{stages} stages are not more than {at_work}" if stages <= at_work else None


# kernel.hpp: the next tile's products begin in registers of a piece; FP4's logits were wrong so, on an H200.
@rule(OURS, "run mma q pieces", of=lambda config: config.run > 1)
def tiles_in_a_row(config: MqaLogitsConfig) -> str | None:
    """Tiles in a row are FP8's, multiplied by wgmma in two pieces or more."""
    if config.mma == "wgmma" and config.q == "e4m3" and config.pieces > 1:
        return None
    return f"tiles in a row want wgmma of e4m3 in pieces, not {config.mma} of {config.q} in {config.pieces}"


RULES = (*of_module(__name__), shared_memory(attrgetter("shared_bytes"), "stages queries heads head_dim"))
