"""Kernels of `tcgen05`: CUTLASS's collectives of groups, whose types, tiles and schedules are those of
`blockscaled_gemm`."""

from __future__ import annotations

from typing import Any

from tilewright.configurations.shared import MatrixAlignment, Memory
from tilewright.families.blockscaled_gemm import kernel as blockscaled
from tilewright.families.blockscaled_gemm.config import BlockscaledGemmConfig
from tilewright.families.blockscaled_gemm.memory import memory_of_groups
from tilewright.families.grouped_gemm.config import GroupedGemmConfig
from tilewright.families.grouped_gemm.problem import MX_FORMATS, PACKED_SCALES
from tilewright.formats.types import bits

# Variables that the template shares with that of `blockscaled_gemm`.
_SHARED = (
    "two_sm", "element_a", "element_b", "element_d", "layout_d", "tile", "cluster", "arch_tag",
    "epilogue_tile", "alignment_a", "alignment_b", "alignment_d", "stage_count",
)  # fmt: skip


def product(config: GroupedGemmConfig) -> BlockscaledGemmConfig:
    """The kernel that computes one group's product."""
    return BlockscaledGemmConfig(
        config.arch, MX_FORMATS[config.a], MX_FORMATS[config.b], config.d, config.tile, config.schedule,
        cluster="dynamic", swap_ab=config.swap_ab, pdl=config.pdl, stages=config.stages,
    )  # fmt: skip


def memory(config: GroupedGemmConfig) -> Memory:
    """The stages that fit, and the bytes of shared memory."""
    return memory_of_groups(product(config))


def alignment(config: GroupedGemmConfig) -> MatrixAlignment:
    """For each matrix the number of elements that divides its contiguous extent and its leading dimension."""
    return blockscaled.alignment(product(config))


def build(config: GroupedGemmConfig) -> dict[str, Any]:
    """Compiler settings of the kernel, and the tensor-core instructions that its machine code must hold."""
    return blockscaled.build(product(config))


def variables(config: GroupedGemmConfig) -> dict[str, Any]:
    """What the template names."""
    own, aligned = blockscaled.blackwell(product(config)), alignment(config)
    return {name: own[name] for name in _SHARED} | {
        "epilogue_schedule": f"PtrArray{own['epilogue_schedule']}",
        "mainloop_schedule": own["mainloop_schedule"].replace("KernelTma", "KernelPtrArrayTma"),
        "swap_ab": config.swap_ab,
        "scale_block": PACKED_SCALES[config.scales],
        "bits_a": bits(config.a),
        "bits_b": bits(config.b),
        "caller_a": aligned["a"],
        "caller_b": aligned["b"],
    }
