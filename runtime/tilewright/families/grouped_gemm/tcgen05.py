"""Kernels of `tcgen05`: CUTLASS's collectives of groups, whose types, tiles and schedules are those of
`blockscaled_gemm`."""

from __future__ import annotations

from typing import Any

from tilewright.configurations.shared import MatrixAlignment, Memory, flag
from tilewright.families.blockscaled_gemm import compilation, cutlass_kernel
from tilewright.families.blockscaled_gemm.alignment import alignment as alignment_of_product
from tilewright.families.blockscaled_gemm.config import BlockscaledGemmConfig
from tilewright.families.blockscaled_gemm.memory import memory_of_groups
from tilewright.families.grouped_gemm.config import GroupedGemmConfig, by_parts
from tilewright.families.grouped_gemm.problem import MX_FORMATS, PACKED_SCALES


def product(config: GroupedGemmConfig) -> BlockscaledGemmConfig:
    """The kernel that computes one group's product."""
    parts = by_parts(config)
    return BlockscaledGemmConfig(
        config.arch, MX_FORMATS[config.a], MX_FORMATS[config.b], config.d, config.tile, config.schedule,
        c="same" if parts else "none", store="direct" if parts else "tma",
        cluster="dynamic", swap_ab=config.swap_ab, pdl=config.pdl, stages=config.stages,
    )  # fmt: skip


def memory(config: GroupedGemmConfig) -> Memory:
    """The stages that fit, and the bytes of shared memory."""
    return memory_of_groups(product(config))


def alignment(config: GroupedGemmConfig) -> MatrixAlignment:
    """For each matrix the number of elements that divides its contiguous extent and its leading dimension."""
    return alignment_of_product(product(config))


def build(config: GroupedGemmConfig) -> dict[str, Any]:
    """Compiler settings of the kernel, and the tensor-core instructions that its machine code must hold."""
    return compilation.build(product(config))


def variables(config: GroupedGemmConfig) -> dict[str, Any]:
    """What the template names."""
    own = cutlass_kernel.variables_of_groups(product(config))
    parts = by_parts(config)
    return own | {
        "scale_block": PACKED_SCALES[config.scales],
        "header": "tcgen05" + flag("_parts", parts),
        "macro": f"TILEWRIGHT_GROUPED_TCGEN05_{flag('PARTS_', parts)}KERNEL",
        "element_c": "ElementD" if parts else "void",
    }
