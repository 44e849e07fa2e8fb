"""The rules for `quantize` kernels. All code that asks whether a configuration is legal asks these.

The comment above a rule names its source.
"""

from __future__ import annotations

from tilewright.configurations.rule import HARDWARE, OURS, of_module, rule
from tilewright.configurations.shared_rules import shared_memory
from tilewright.families.quantize.config import QuantizeConfig, block, in_cute_dsl
from tilewright.families.quantize.memory import shared_bytes
from tilewright.families.quantize.problem import inputs


# FP8 data from an all-to-all or a cache are quantised again to NVFP4; other formats were not asked for.
@rule(OURS, "x format direction", compiles="the other formats' kernels compile for it; nobody asks for them")
def e4m3_input(config: QuantizeConfig) -> str | None:
    """An x of E4M3 is only quantised, to NVFP4."""
    if config.x == "e4m3" and config.direction == "dequantize":
        return "dequantising writes bf16, f16 or f32, not e4m3"
    return None if config.x in inputs(config.format) else f"x of e4m3 is for nvfp4, not {config.format}"


# tma.hpp copies rows of x; the other kernels have work of their own between loading and quantising.
@rule(OURS, "variant direction fusion format", of=lambda config: config.variant == "tma")
def tma_source(config: QuantizeConfig) -> str | None:
    """The tma variant quantises x without a fusion, to formats whose blocks lie in one row."""
    if config.direction == "dequantize" or config.fusion != "none":
        what = config.direction if config.direction == "dequantize" else config.fusion
        return f"{what} has only the vector variant"
    if (rows := block(config.format)[0]) > 1:
        return f"{config.format} has only the vector variant: its blocks are {rows} rows high"
    return None


# vector.hpp has no ring, and a ring of one stage has nothing in flight while it is read.
@rule(OURS, "stages variant", compiles="a ring of one stage works, and waits for every copy")
def stages_of_variant(config: QuantizeConfig) -> str | None:
    """The tma variant has 2 stages or more, the others 1."""
    if config.variant == "tma" and config.stages < 2:
        return f"a ring has 2 stages or more, not {config.stages}"
    if config.variant != "tma" and config.stages != 1:
        return f"the vector variant has no ring: stages is 1, not {config.stages}"
    return None


# tma.hpp: each of the producer's 32 lanes copies a row, four to a warp.
@rule(OURS, "threads", of=lambda config: config.variant == "tma")
def tma_threads(config: QuantizeConfig) -> str | None:
    """In the tma variant 256, 512 or 768 threads quantise."""
    if config.threads % 256 or config.threads > 768:
        return f"threads of the tma variant are 256, 512 or 768, not {config.threads}"
    return None


# vector.hpp, fused_norm.hpp and square.hpp ask for 64 to 128 registers a thread, of 65536.
@rule(OURS, "threads", compiles="the kernel would spill registers, or leave the SM half empty")
def threads_of_block(config: QuantizeConfig) -> str | None:
    """A thread block has 128, 256 or 512 threads (tma: see tma_threads), 256 or more for squares of f32."""
    if config.variant == "vector" and config.threads not in (128, 256, 512):
        return f"threads are 128, 256 or 512, not {config.threads}"
    square = block(config.format)[0] > 1 and config.direction == "quantize"
    if square and config.x == "f32" and config.threads < 256:
        held = 128 * 128 // config.threads
        return f"a thread of {config.threads} holds {held} elements of a square, and has 128 registers"
    return None


# A fused kernel holds two loads, or rows and weights; square.hpp reduces over the thread block.
@rule(OURS, "fusion direction x format", of=lambda config: config.fusion != "none")
def fused_formats(config: QuantizeConfig) -> str | None:
    """Only kernels that quantise BF16 or FP16 to formats whose blocks lie in one row have a fusion."""
    if config.direction == "dequantize":
        return f"dequantising has no fusion, got {config.fusion}"
    if config.x not in ("bf16", "f16"):
        return f"{config.fusion} takes bf16 or f16, not {config.x}"
    if block(config.format)[0] > 1:
        return f"{config.fusion} needs blocks within one row, not {config.format}"
    return None


# formats.hpp: only NVFP4's scales are divided. The other ops have no `fast` to ask for such a kernel.
@rule(OURS, "arithmetic direction format", of=lambda config: config.arithmetic == "fast")
def fast_arithmetic(config: QuantizeConfig) -> str | None:
    """Only kernels that quantise to NVFP4 have fast arithmetic: others seldom divide."""
    if config.direction == "dequantize" or config.format != "nvfp4":
        return f"{config.direction} of {config.format} has no fast arithmetic"
    return None


# quantize/four_over_six.hpp: a thread has the 16 elements of a block, adds up their errors, divides exactly.
@rule(
    OURS,
    "four_over_six format x direction fusion arithmetic",
    of=lambda config: config.four_over_six != "none",
)
def four_over_six_source(config: QuantizeConfig) -> str | None:
    """Only kernels that quantise BF16 or FP16 to NVFP4, exactly, without a fusion and in C++, choose between
    two scales of a block."""
    if config.direction == "dequantize" or config.format != "nvfp4":
        return f"{config.direction} of {config.format} has no choice of scales"
    if config.x not in ("bf16", "f16"):
        return f"the better of two scales is for bf16 or f16, not {config.x}"
    if config.fusion != "none":
        return f"{config.fusion} has no choice of scales"
    if config.arithmetic != "exact" or in_cute_dsl(config):
        return f"{'CuTe-DSL' if in_cute_dsl(config) else 'fast arithmetic'} has no choice of scales"
    return None


# quantize/nvfp4_program.py is one program.
@rule(OURS, "format x direction fusion arithmetic", of=in_cute_dsl)
def cute_dsl_format(config: QuantizeConfig) -> str | None:
    """A kernel in CuTe-DSL quantises bf16, f16 or e4m3 to NVFP4, exactly and without a fusion."""
    if config.direction == "dequantize" or config.format != "nvfp4":
        return f"CuTe-DSL's kernels quantise to nvfp4; {config.direction} of {config.format} is in C++ alone"
    if config.fusion != "none" or config.arithmetic != "exact":
        what = config.fusion if config.fusion != "none" else f"{config.arithmetic} arithmetic"
        return f"{what} is in C++ alone, not in CuTe-DSL"
    return "CuTe-DSL's kernels take bf16, f16 or e4m3, not f32" if config.x == "f32" else None


# PTX ISA: a side of a TMA box has at most 256 elements. Threads take four rows each.
@rule(HARDWARE, "threads", of=lambda config: in_cute_dsl(config) and config.variant == "tma")
def cute_dsl_box(config: QuantizeConfig) -> str | None:
    """In the tma variant of CuTe-DSL 256 threads quantise: a box has at most 256 rows."""
    return (
        None
        if config.threads == 256
        else f"a box of {config.threads} threads has {config.threads} rows, 256 at most"
    )


RULES = (*of_module(__name__), shared_memory(shared_bytes, "stages x threads"))
