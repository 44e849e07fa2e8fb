"""The name, summary, table row and template variables of a `blockscaled_grouped_gemm` kernel."""

from __future__ import annotations

from typing import Any

from tilewright.configurations.shared import flag
from tilewright.configurations.sources import memory_variables, named, spelt
from tilewright.families.blockscaled_gemm import compilation, cutlass_kernel
from tilewright.families.blockscaled_gemm.alignment import alignment
from tilewright.families.blockscaled_gemm.memory import memory_of_groups
from tilewright.families.blockscaled_gemm.problem import BLOCK
from tilewright.families.blockscaled_grouped_gemm import rules
from tilewright.families.blockscaled_grouped_gemm.config import (
    BlockscaledGroupedGemmConfig,
    BlockscaledGroupedGemmFacts,
    product,
)

RULES = rules.RULES


def kernel_name(config: BlockscaledGroupedGemmConfig) -> str:
    """See `named`."""
    return named(
        "blockscaled_grouped_gemm", config.arch, config.a, config.b, config.d, config.tile, config.schedule,
        flag("swap", config.swap_ab), flag(f"{config.stages}stages", config.stages != "auto"),
    )  # fmt: skip


def formula(config: BlockscaledGroupedGemmConfig) -> str:
    """The formula that the kernel computes, in the terms of its caller."""
    block = BLOCK[config.a]
    return f"D[m,n] = alpha[g] * sum over k of (A[m,k] SFA[m,k/{block}]) (B[g,n,k] SFB[g,n,k/{block}])"


def schedule_text(config: BlockscaledGroupedGemmConfig) -> str:
    """How the work is done, in words."""
    pair = "one SM an MMA" if config.schedule == "1sm" else "two SMs an MMA"
    swapped = flag(", operands swapped", config.swap_ab)
    return f"CUTLASS's collective of groups, {pair}, clusters at run time{swapped}"


def summary(config: BlockscaledGroupedGemmConfig) -> str:
    """One line for lists."""
    stages = memory_of_groups(product(config)).stages
    types = f"{config.a} x {config.b} -> {config.d}"
    return f"{types}, tile {config.tile}, {stages} stages, {schedule_text(config)}"


def facts(config: BlockscaledGroupedGemmConfig) -> BlockscaledGroupedGemmFacts:
    """Derived numbers that the runtime needs; alignments are in elements."""
    stages, total = memory_of_groups(product(config))
    return {
        "stages": stages,
        "smem_bytes": total,
        "threads": 256,  # four single warps and four of the epilogue
        "block": BLOCK[config.a],
        "alignment": alignment(product(config)),
        "cluster_multiple": (2 if config.schedule == "2sm" else 1, 1),
    }


def build(config: BlockscaledGroupedGemmConfig) -> dict[str, Any]:
    """Compiler settings of the kernel, and the tensor-core instructions that its machine code must hold."""
    return compilation.build(product(config))


def variables(config: BlockscaledGroupedGemmConfig) -> dict[str, str]:
    """The template's variables, all of them text."""
    return spelt(
        cutlass_kernel.variables_of_groups(product(config))
        | {
            "formula": formula(config),
            "operands": f"A {config.a} row-major, B {config.b} column-major, D {config.d} row-major, summed "
            "in f32",
            **memory_variables(config.tile, memory_of_groups(product(config)), ", run-time clusters"),
            "schedule": schedule_text(config),
            "scale_block": BLOCK[config.a],
        }
    )
