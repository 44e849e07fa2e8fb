"""What is legal for an `mqa_logits` kernel. The comment above a rule names what it rests on."""

from dataclasses import fields
from math import lcm
from operator import attrgetter

from tilewright.configurations.rule import HARDWARE, OURS, of_module, rule, unsettled
from tilewright.configurations.shared_rules import shared_memory
from tilewright.families.mqa_logits.config import MULTIPLIERS, TENSOR_TILE, MqaLogitsConfig

_ACCUMULATORS = {1: 192, 2: 192, 3: 112, 4: 96}  # and weights, by warpgroups: of what setmaxnreg gives
_OF_SCHEDULES = "form heads head_dim q d mma queries pieces run warpgroups stages"


# schedule.hpp knows of lengths alone.
@rule(OURS, _OF_SCHEDULES, compiles="they would mean nothing", of=lambda config: not config.tiled)
def schedule_alone(config: MqaLogitsConfig) -> str | None:
    """A schedule has no heads, tiles or types."""
    plain = MqaLogitsConfig(config.arch, config.form, pdl=config.pdl)
    given = [one.name for one in fields(config) if getattr(config, one.name) != getattr(plain, one.name)]
    return f"a schedule has no {', '.join(given)}" if given else None


# PTX ISA: "wgmma.mma_async" is sm_90a's, "tcgen05.mma" sm_100f's, "mma.sync" with block scales sm_12x's; that
# of FP8 is emulated elsewhere. On sm_100f it would be a second way, without its tensor core's rate.
@rule(HARDWARE, "mma q arch", of=attrgetter("tiled"))
def instruction_arch(config: MqaLogitsConfig) -> str | None:
    """FP8 and FP4 have one instruction each on an architecture; sm_90a emulates those of others."""
    arch = MULTIPLIERS.get((config.mma, config.q), ("no GPU",))[0]
    given = f"{config.mma} of {config.q} is {arch}'s, not {config.arch}'s"
    return given if arch == "no GPU" or config.arch not in (arch, "sm_90a") else None


# tensor_kernel.hpp: its registers are shared out so; `tcgen05.cp` copies 128 words at once.
@rule(OURS, "q queries heads warpgroups pieces", of=lambda config: config.mma == "tcgen05")
def tensor_tiles(config: MqaLogitsConfig) -> str | None:
    """By tcgen05 two warpgroups reduce tiles that are whole pieces; of FP4 they have 128 columns."""
    if config.q == "mxfp4" and config.columns != TENSOR_TILE:
        return f"{config.queries} queries of {config.heads} heads are {config.columns} columns, not 128"
    return unsettled(config, "tcgen05", {"warpgroups": 2, "pieces": 1})


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
    return f"{queries} queries do not divide into {config.pieces} pieces" if config.pieces > queries else None


# kernel.hpp: setmaxnreg gives 224, 152 or 104 registers to a thread that multiplies, of 2, 3 or 4 warpgroups.
@rule(OURS, "queries heads warpgroups pieces", compiles="the compiler would spill", of=attrgetter("tiled"))
def register_file(config: MqaLogitsConfig) -> str | None:
    """Products and weights fit the registers of a thread."""
    found, limit = config.registers, _ACCUMULATORS[config.warpgroups]
    return f"products and weights take {found} registers a thread > {limit}" if found > limit else None


# kernel.hpp: a warpgroup's next tile is loaded while it works, of tiles in a row while it works at two. A
# barrier tells a phase from the next one only: whoever waits for a stage waits for all its tiles.
@rule(OURS, "stages warpgroups run", of=attrgetter("tiled"))
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
