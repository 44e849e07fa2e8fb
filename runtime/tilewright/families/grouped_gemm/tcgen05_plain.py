"""Kernels of `tcgen05` whose instruction multiplies without scale factors: FP8 with F32 factors, by which
CUTLASS's blockwise collective scales sums of 128 of k in registers, and BF16."""

from __future__ import annotations

from typing import Any

from tilewright.architectures.table import TCGEN05
from tilewright.configurations.shared import Memory, flag
from tilewright.configurations.sources import CUTLASS_TYPES, alignment, kernel_operands
from tilewright.families.blockscaled_gemm import cutlass_kernel
from tilewright.families.blockscaled_gemm.config import BlockscaledGemmConfig
from tilewright.families.blockscaled_gemm.memory import memory_of_plain_groups, memory_of_scaled_groups
from tilewright.families.grouped_gemm.config import GroupedGemmConfig, own_scales
from tilewright.formats.types import bits

BLOCK = 128  # elements of k that share a factor, and rows of a block of 128x128
# Why kernels with F32 factors may give stages back early. A load from shared memory takes tens of clocks.
_RELEASES = (
    "CUTLASS's blockwise mainloop for sm_100 gives a stage of scale factors back without waiting for the "
    "loads of them, and cp.async fills it again from L2, hundreds of clocks later; a warp also arrives after "
    "it has read the address of tensor memory, which nothing overwrites"
)
# Variables that the template shares with that of `blockscaled_gemm`.
_SHARED = (
    "two_sm", "element_d", "layout_d", "tile", "cluster", "arch_tag", "epilogue_tile", "alignment_d",
    "stage_count",
)  # fmt: skip


def outline(config: GroupedGemmConfig) -> BlockscaledGemmConfig:
    """A block-scaled kernel of the same tile, schedule and D, whose epilogue is the kernel's."""
    return BlockscaledGemmConfig(
        config.arch, "mxfp8", "mxfp8", config.d, config.tile, config.schedule,
        cluster="dynamic", swap_ab=config.swap_ab, pdl=config.pdl, stages=config.stages,
    )  # fmt: skip


def granularities(config: GroupedGemmConfig) -> tuple[int, int]:
    """Rows of the kernel's own A, and of its B, that share a factor."""
    a, b = (BLOCK if scales == "blocks" else 1 for scales in own_scales(config))
    return a, b


def memory(config: GroupedGemmConfig) -> Memory:
    """The stages that fit, and the bytes of shared memory."""
    m, n, k = config.tile
    sms = 2 if config.schedule == "2sm" else 1
    stage = (m + n // sms) * k * bits(config.a) // 8
    if config.scales == "none":
        return memory_of_plain_groups(outline(config), stage)
    rows_a, rows_b = granularities(config)
    scales, counted = (4 * (rows // rows_a + n // rows_b) for rows in (m, m * sms))
    return memory_of_scaled_groups(outline(config), stage, scales, counted)


def build(config: GroupedGemmConfig) -> dict[str, Any]:
    """How the kernel is compiled, and which tensor-core instruction its machine code must hold."""
    kind = "half" if config.a == "bf16" else "fp8"
    pair = flag(r"\.2CTA", config.schedule == "2sm")
    row: dict[str, Any] = {
        "arch": config.arch,
        "defines": [],
        "instructions": [f"{TCGEN05.opcodes[kind].name}{pair}"],
    }
    return row if config.scales == "none" else row | {"releases": _RELEASES}


def variables(config: GroupedGemmConfig) -> dict[str, Any]:
    """What the template names."""
    own, aligned = cutlass_kernel.variables(outline(config)), alignment(config)
    scaled = config.scales != "none"
    a, b = kernel_operands(config)
    pair = "2Sm" if config.schedule == "2sm" else "1Sm"
    rows_a, rows_b = granularities(config)
    return {name: own[name] for name in _SHARED} | {
        "element_a": CUTLASS_TYPES[a],
        "element_b": CUTLASS_TYPES[b],
        "alignment_a": aligned["b" if config.swap_ab else "a"],
        "alignment_b": aligned["a" if config.swap_ab else "b"],
        "epilogue_schedule": f"PtrArray{own['epilogue_schedule']}",
        "mainloop_schedule": f"KernelPtrArrayTmaWarpSpecialized{flag('Blockwise', scaled)}{pair}Sm100",
        "swap_ab": config.swap_ab,
        "scaled": scaled,
        "rows_a": rows_a,
        "rows_b": rows_b,
        "blocks_of_b": config.scales == "128x128",
        "factors": "FloatFactors" if scaled else "NoFactors",
        "bits_a": bits(config.a),
        "bits_b": bits(config.b),
        "caller_a": aligned["a"],
        "caller_b": aligned["b"],
    }
