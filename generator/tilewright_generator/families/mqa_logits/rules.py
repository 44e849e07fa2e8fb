"""What is legal for an `mqa_logits` kernel: the single statement, asked by all that need to know.

The comment above a rule names what it rests on.
"""

from __future__ import annotations

from dataclasses import fields

from tilewright_generator.families.mqa_logits.config import MqaLogitsConfig, columns, registers, shared_bytes
from tilewright_generator.families.rule import HARDWARE, OURS, of_module, rule
from tilewright_generator.families.shared import SHARED_MEMORY, number

_ACCUMULATORS = {1: 192, 2: 192, 3: 112, 4: 96}  # and weights, by warpgroups: of what setmaxnreg gives
_OF_SCHEDULES = "form heads head_dim q d mma queries pieces warpgroups stages"


def schedule(config: MqaLogitsConfig) -> bool:
    return config.form == "schedule"


def tiles(config: MqaLogitsConfig) -> bool:
    return config.form != "schedule"


# schedule.hpp knows of lengths alone.
@rule(OURS, _OF_SCHEDULES, compiles="they would mean nothing", of=schedule)
def schedule_alone(config: MqaLogitsConfig) -> str | None:
    """A schedule has no heads, tiles or types."""
    plain = MqaLogitsConfig(arch=config.arch, form="schedule", pdl=config.pdl)
    given = [one.name for one in fields(config) if getattr(config, one.name) != getattr(plain, one.name)]
    return f"a schedule has no {', '.join(given)}" if given else None


# PTX ISA, "wgmma.mma_async": sm_90a; "mma.sync" with block scales: sm_12x. fp4.hpp emulates it on sm_90a.
@rule(HARDWARE, "mma q arch", of=tiles)
def instruction_arch(config: MqaLogitsConfig) -> str | None:
    """wgmma is sm_90a's; block scales are FP4's, on sm_12x (emulated on sm_90a)."""
    if config.mma == "wgmma" and config.arch != "sm_90a":
        return f"{config.arch} has no wgmma; mma is mma_sync, or block_scaled of FP4 on sm_120f"
    if config.mma == "block_scaled" and (config.q != "mxfp4" or config.arch == "sm_100f"):
        return f"block_scaled multiplies mxfp4, on sm_120f and sm_90a, not {config.q} on {config.arch}"
    return None


# fp4.hpp: a thread decodes 16 elements of a key at least.
@rule(OURS, "q head_dim", of=lambda config: config.q == "mxfp4")
def fp4_heads(config: MqaLogitsConfig) -> str | None:
    """Heads of FP4 have 64 or 128 elements."""
    return "heads of FP4 have 64 or 128 elements, not 32" if config.head_dim == 32 else None


# reduction.hpp halves the sums of a quad; wgmma has at most 256 columns, and a box of TMA as many rows.
@rule(OURS, "queries heads pieces")
def query_block(config: MqaLogitsConfig) -> str | None:
    """A tile has a power of two of queries, at most 256 columns, and whole queries in each piece."""
    if config.queries & (config.queries - 1):
        return f"queries are a power of two, not {config.queries}"
    if columns(config) > 256:
        return f"{config.queries} queries of {config.heads} heads are {columns(config)} columns > 256"
    if config.pieces > config.queries:
        return f"{config.queries} queries do not divide into {config.pieces} pieces"
    return None


# kernel.hpp: setmaxnreg gives 216, 152 or 104 registers to a thread that multiplies, of 2, 3 or 4 warpgroups.
@rule(OURS, "queries heads warpgroups pieces", compiles="the compiler would spill", of=tiles)
def register_file(config: MqaLogitsConfig) -> str | None:
    """Products and weights fit the registers of a thread."""
    found, limit = registers(config), _ACCUMULATORS[config.warpgroups]
    return f"products and weights take {found} registers a thread > {limit}" if found > limit else None


# Seen on an H200 (nvcc 13.0), not explained: with all 256 columns in one wgmma, the first tile of a block of
# queries had now and then the scales of the tile that is loaded next into its stage. Two wgmmas are as fast.
@rule(OURS, "pieces queries heads", compiles="some logits would have another key's scale", of=tiles)
def wide_tiles_in_pieces(config: MqaLogitsConfig) -> str | None:
    """256 columns are multiplied in two pieces or more."""
    whole = columns(config) == 256 and config.pieces == 1
    return "256 columns are multiplied in 2 pieces or 4, not in one" if whole else None


# kernel.hpp: a warpgroup's next tile is loaded while it works.
@rule(OURS, "stages warpgroups", of=tiles)
def stages_of_warpgroups(config: MqaLogitsConfig) -> str | None:
    """There are more stages than warpgroups."""
    if config.stages <= config.warpgroups:
        return f"{config.stages} stages are not more than {config.warpgroups} warpgroups"
    return None


# CUDA programming guide, "Compute Capabilities": 227 KB a thread block, 99 on sm_12x.
@rule(HARDWARE, "stages queries heads head_dim")
def shared_memory(config: MqaLogitsConfig) -> str | None:
    """A thread block's shared memory is at most 227 KB, on sm_12x 99 KB."""
    total, limit = shared_bytes(config), SHARED_MEMORY[number(config.arch)]
    wanted = f"{total:,} bytes of shared memory, of {limit:,} that {config.arch} has"
    return wanted if total > limit else None


RULES = of_module(__name__)
