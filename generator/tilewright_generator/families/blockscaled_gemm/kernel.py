"""What is written of a kernel: its name, its summary, its table row and its template's variables."""

from __future__ import annotations

from typing import Any

from tilewright.ops.blockscaled_gemm.problem import BLOCK
from tilewright.types import bits
from tilewright_generator.families.blockscaled_gemm.config import (
    HOPPER,
    SM120,
    TCGEN05,
    BlockscaledGemmConfig,
    architecture,
    c_type,
    mixes_bits,
    quantizes,
    ultra,
)
from tilewright_generator.families.blockscaled_gemm.memory import memory
from tilewright_generator.families.shared import named


def kernel_name(config: BlockscaledGemmConfig) -> str:
    """See `named`."""
    return named(
        "blockscaled_gemm", config.arch, config.a, config.b, config.d, config.tile,
        "dyn" if config.cluster == "dynamic" else config.cluster,
        config.schedule.replace("cooperative", "coop"), "streamk" * (config.scheduler == "stream_k"),
        "swap" * config.swap_ab, "c" * (config.c == "same"),
        {"tma": "", "direct": "direct", "direct_256": "direct256"}[config.store],
        "noprefetch" * (config.prefetch == "none"),
        f"{config.stages}stages" * (config.stages != "auto"), "nopdl" * (not config.pdl),
    )  # fmt: skip


def formula(config: BlockscaledGemmConfig) -> str:
    """What the kernel computes, in the terms of its caller."""
    terms = f"alpha * (A[m,k] SFA[m,k/{BLOCK[config.a]}]) (B[n,k] SFB[n,k/{BLOCK[config.b]}])"
    if config.c == "same":
        terms += " + beta * C[m,n]"
    if quantizes(config):
        return f"D[m,n], SFD[m,n/{BLOCK[config.d]}] = quantise({terms})"
    return f"D[m,n] = {terms}"


def schedule_text(config: BlockscaledGemmConfig) -> str:
    """Schedule and scheduler in words, and what else shapes the main loop."""
    schedule = {"1sm": "one SM an MMA", "2sm": "two SMs an MMA"}.get(config.schedule, config.schedule)
    words = [schedule, "stream-K" if config.scheduler == "stream_k" else "data-parallel tiles"]
    if config.swap_ab:
        words.append("operands swapped")
    if ultra(config):
        words.append("loads announced to L2" if config.prefetch == "tma" else "no prefetch")
    if config.store != "tma":
        words.append(f"D stored from registers, {32 if config.store == 'direct_256' else 16} bytes at a time")
    return ", ".join(words)


def summary(config: BlockscaledGemmConfig) -> str:
    """One line for lists."""
    cluster = "run-time cluster" if config.cluster == "dynamic" else f"cluster {config.cluster}"
    return f"{config.a} x {config.b} -> {config.d}, tile {config.tile}, {cluster}, {schedule_text(config)}"


def alignment(config: BlockscaledGemmConfig) -> dict[str, int]:
    """Elements of which the contiguous extent and the leading dimension of each matrix are multiples.

    TMA moves 16 bytes; FP4 beside FP8 is unpacked to bytes by TMA, 128 elements at a time. Hopper's kernels
    take whole blocks of MX formats, and their epilogue stores single elements where it must.
    """
    if architecture(config) is HOPPER:
        return {"a": 32, "b": 32, "c": 1, "d": 1}

    store = 256 if config.store == "direct_256" else 128

    def operand(dtype: str) -> int:
        return 128 if mixes_bits(config) and bits(dtype) == 4 else 128 // bits(dtype)

    return {
        "a": operand(config.a),
        "b": operand(config.b),
        "c": store // bits(c_type(config)),
        "d": store // bits(config.d),
    }


def facts(config: BlockscaledGemmConfig) -> dict[str, Any]:
    """Derived numbers that the runtime needs; alignments are in elements."""
    stages, total = memory(config)
    found: dict[str, Any] = {
        "stages": stages,
        "smem_bytes": total,
        # Hopper: a warpgroup for each 64 rows. tcgen05: four single warps and four of the epilogue. sm_12x: a
        # producer warpgroup and two consumers.
        "threads": {HOPPER: 2 * config.tile.m, TCGEN05: 256, SM120: 384}[architecture(config)],
        "block": BLOCK[config.a],
        "alignment": alignment(config),
    }
    if config.cluster == "dynamic":
        found["cluster_multiple"] = [2 if config.schedule == "2sm" else 1, 1]
    return found


def build(config: BlockscaledGemmConfig) -> dict[str, Any]:
    """How the kernel is compiled, and which tensor-core instruction its machine code must hold."""
    # CUTLASS 4.2's switch for sm_100 covers 103, 120 and 121, and leaves sm_110 out: there we define what
    # the switch leads to. Hopper's kernels are ours and need none.
    sm110 = config.arch.startswith("sm_110")
    pdl = "CUTLASS_GDC_ENABLED=1" if sm110 else "CUTLASS_ENABLE_GDC_FOR_SM100=1"
    found: dict[str, Any] = {
        "arch": config.arch,
        "defines": [pdl] if config.pdl and architecture(config) is not HOPPER else [],
        "instructions": [_instruction(config)],
    }
    if config.cutlass != "4.2":
        found["cutlass"] = config.cutlass
    if reason := _spills(config):
        found["spills"] = reason
    return found


def _spills(config: BlockscaledGemmConfig) -> str:
    """Why ptxas cannot keep the kernel's values in registers; empty where it must."""
    if architecture(config) is not SM120:
        return ""
    if config.tile.m * config.tile.n > 128 * 128:
        return "128 accumulators a thread, of 168 registers that 384 threads leave it"
    return "one word, in stream-K's fixup" * (config.tile.n == 64 and config.scheduler == "stream_k")


def kind(config: BlockscaledGemmConfig) -> str:
    """Of the instruction: nvfp4, mxfp4, or mx for all that have eight bits."""
    return config.a if config.a == config.b and bits(config.a) == 4 else "mx"


def _instruction(config: BlockscaledGemmConfig) -> str:
    """A pattern for the opcode, from its start; the suffixes say which scales go with it."""
    if architecture(config) is HOPPER:
        return "HGMMA"
    if architecture(config) is SM120:
        opcodes = {"nvfp4": r"OMMA\.SF.*\.UE4M3\.4X", "mxfp4": r"OMMA\.SF.*\.E8", "mx": r"QMMA\.SF"}
        return opcodes[kind(config)]
    pair = r"\.2CTA" * (config.schedule == "2sm")
    # On sm_103a every instruction of NVFP4 says BLOCK16.
    block16 = r"\.BLOCK16" if config.arch == "sm_103a" else r"\.4X"
    opcodes = {"nvfp4": f"UTCOMMA{pair}{block16}", "mxfp4": f"UTCOMMA{pair}$", "mx": f"UTCQMMA{pair}$"}
    return opcodes[kind(config)]
