"""The rules for `mqa_logits` kernels. The comment above a rule names its source."""

from dataclasses import fields
from math import lcm
from operator import attrgetter

from tilewright.configurations.rule import HARDWARE, OURS, of_module, rule, unsettled
from tilewright.configurations.shared_rules import shared_memory
from tilewright.families.mqa_logits.config import EMULATOR, MULTIPLIERS, TENSOR_TILE, MqaLogitsConfig

# Registers of a thread for products and weights, by warpgroups, of those that setmaxnreg gives.
_ACCUMULATORS = {1: 192, 2: 192, 3: 112, 4: 96}
_OF_SCHEDULES = "form heads head_dim q d mma queries pieces run warpgroups stages"


# schedule.hpp reads nothing but lengths.
@rule(OURS, _OF_SCHEDULES, compiles="they would mean nothing", of=lambda config: not config.tiled)
def schedule_alone(config: MqaLogitsConfig) -> str | None:
    """A schedule has no heads, tiles or types."""
    plain = MqaLogitsConfig(config.arch, config.form, pdl=config.pdl)
    names = [field.name for field in fields(config)]
    extra = [name for name in names if getattr(config, name) != getattr(plain, name)]
    return f"a schedule has no {', '.join(extra)}" if extra else None


# PTX ISA: sm_90a has "wgmma.mma_async", sm_100f and sm_110f "tcgen05.mma", sm_12x "mma.sync" with block
# scales. Elsewhere mma.sync emulates FP8; beside tcgen05 it would be a second way, and slower.
@rule(HARDWARE, "mma q arch", of=attrgetter("tiled"))
def instruction_arch(config: MqaLogitsConfig) -> str | None:
    """FP8 and FP4 have one instruction each on an architecture; sm_90a emulates the others' instructions."""
    multiplier = MULTIPLIERS.get((config.mma, config.q))
    if multiplier is not None and config.arch in (*multiplier.targets, EMULATOR):
        return None
    owner = "no GPU" if multiplier is None else " and ".join(multiplier.targets)
    return f"{config.mma} of {config.q} is for {owner}, not for {config.arch}"


# tensor_kernel.hpp divides its registers between two warpgroups; `tcgen05.cp` copies 128 words at once.
@rule(OURS, "q queries heads warpgroups pieces", of=lambda config: config.mma == "tcgen05")
def tensor_tiles(config: MqaLogitsConfig) -> str | None:
    """With tcgen05 two warpgroups reduce tiles in one piece; FP4's tiles have 128 columns."""
    if config.q == "mxfp4" and config.columns != TENSOR_TILE:
        return f"{config.queries} queries of {config.heads} heads are {config.columns} columns, not 128"
    return unsettled(config, "tcgen05", {"warpgroups": 2, "pieces": 1})


# fp4.hpp: a thread decodes 16 elements of a key at least.
@rule(OURS, "q head_dim", of=lambda config: config.q == "mxfp4")
def fp4_heads(config: MqaLogitsConfig) -> str | None:
    """Heads of FP4 have 64 or 128 elements."""
    return "heads of FP4 have 64 or 128 elements, not 32" if config.head_dim == 32 else None


# reduction.hpp halves the sums of four lanes; wgmma has at most 256 columns, and a box of TMA has at most 256
# rows.
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
    count, limit = config.registers, _ACCUMULATORS[config.warpgroups]
    return f"products and weights take {count} registers a thread > {limit}" if count > limit else None


# kernel.hpp: a warpgroup's next tile is loaded while it works on one tile, or on two if tiles follow in a
# row. A barrier distinguishes a phase from the next one only: a thread that waits for a stage waits for all
# its tiles.
@rule(OURS, "stages warpgroups run", of=attrgetter("tiled"))
def stages_of_warpgroups(config: MqaLogitsConfig) -> str | None:
    """There are more stages than warpgroups (with tiles in a row, than twice the warpgroups), and their
    number is a multiple of the warpgroups."""
    stages, in_use = config.stages, config.warpgroups * min(config.run, 2)
    multiple = lcm(config.warpgroups, 2)  # of warpgroups, and of loading warps
    if stages % multiple:
        return f"{stages} stages are not a multiple of {multiple}, the warpgroups and loading warps"
    return f"{stages} stages are not more than {in_use}" if stages <= in_use else None


# kernel.hpp: the products of the next tile begin in the registers of a piece. With FP4 an H200 then computed
# wrong logits.
@rule(OURS, "run mma q pieces", of=lambda config: config.run > 1)
def tiles_in_a_row(config: MqaLogitsConfig) -> str | None:
    """Only FP8 has tiles in a row, multiplied by wgmma in two pieces or more."""
    if config.mma == "wgmma" and config.q == "e4m3" and config.pieces > 1:
        return None
    return f"tiles in a row need wgmma of e4m3 in pieces, not {config.mma} of {config.q} in {config.pieces}"


RULES = (*of_module(__name__), shared_memory(attrgetter("shared_bytes"), "stages queries heads head_dim"))
