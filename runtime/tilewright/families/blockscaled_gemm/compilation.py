"""How a `blockscaled_gemm` kernel is compiled, and what its machine code is checked for."""

from __future__ import annotations

from typing import Any

from tilewright.configurations.shared import flag
from tilewright.families.blockscaled_gemm.config import (
    HOPPER,
    SM120,
    TCGEN05,
    BlockscaledGemmConfig,
    by_mma,
    by_tcgen05,
)
from tilewright.formats.types import bits

_BIAS_RELEASES = (
    "the loads are of a bias in shared memory, and the arrival gives sums in tensor memory back; the next "
    "tile's bias is written behind a barrier of the epilogue's warps, to which they come with these loads "
    "returned"
)


def build(config: BlockscaledGemmConfig) -> dict[str, Any]:
    """Compiler settings of the kernel, and the tensor-core instructions that its machine code must hold."""
    # Empty for kernels that are ours.
    pdl = "" if config.mainloop != "default" else config.hardware.cutlass.pdl
    row: dict[str, Any] = {
        "arch": config.arch,
        "defines": [pdl] if config.pdl and pdl else [],
        "instructions": [_instruction(config)],
    }
    if config.cutlass != "4.2":
        row["cutlass"] = config.cutlass
    if by_tcgen05(config):
        row["compiler"] = "cute_dsl"
    if config.bias and config.architecture is TCGEN05 and not config.swap_ab:
        row["releases"] = _BIAS_RELEASES
    if by_mma(config):
        row["standard"] = "c++14"
    elif reason := _spills(config):
        row["spills"] = reason
    return row


def _spills(config: BlockscaledGemmConfig) -> str:
    """Why ptxas may spill the kernel's registers; empty if it may not."""
    if config.architecture is not SM120:
        return ""
    if config.tile.m * config.tile.n > 128 * 128:
        return "128 accumulators a thread, of 168 registers that 384 threads leave it"
    return flag("one word, in stream-K's fixup", config.tile.n == 64 and config.scheduler == "stream_k")


def kind(config: BlockscaledGemmConfig) -> str:
    """The kind of the instruction: nvfp4, mxfp4, or mx if an operand has eight bits."""
    return config.a if config.a == config.b and bits(config.a) == 4 else "mx"


def _instruction(config: BlockscaledGemmConfig) -> str:
    """A pattern for the start of the opcode, whose suffixes name the scales."""
    pair = flag(r"\.2CTA", config.schedule == "2sm")
    # Hopper's kernels decode operands to 16 bits.
    scaled = "half" if config.architecture is HOPPER else kind(config)
    name, scales = config.hardware.tensor_core.opcodes[scaled]
    return f"{name}{pair}{scales}"
