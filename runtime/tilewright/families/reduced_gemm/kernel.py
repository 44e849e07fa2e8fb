"""The name, summary, table row and template variables of a kernel of `reduced_gemm`."""

from __future__ import annotations

from typing import Any

from tilewright.architectures.table import MMA_SYNC, WGMMA
from tilewright.configurations.shared import PipelineFacts, flag
from tilewright.configurations.sources import named, spelt
from tilewright.families.reduced_gemm import rules
from tilewright.families.reduced_gemm.config import ReducedConfig, by_mma
from tilewright.families.reduced_gemm.memory import memory

RULES = rules.RULES

_ELEMENTS = {"bf16": "Bf16", "f16": "F16"}
_THREADS = 384


def template(config: ReducedConfig) -> str:
    """The template that a kernel is rendered from."""
    return f"reduced_gemm/{'mma' if by_mma(config) else 'kernel'}.cu.j2"


def kernel_name(config: ReducedConfig) -> str:
    """See `named`."""
    return named("reduced_gemm", config.arch, config.a, config.tile, flag("nopdl", not config.pdl))


def summary(config: ReducedConfig) -> str:
    """One line for lists."""
    return f"{config.a} x {config.a}, added up over a batch, tile {config.tile}, {memory(config)[0]} stages"


def facts(config: ReducedConfig) -> PipelineFacts:
    """Derived numbers that the runtime needs."""
    stages, total = memory(config)
    return {"stages": stages, "smem_bytes": total, "threads": _THREADS}


def build(config: ReducedConfig) -> dict[str, Any]:
    """Compiler settings of the kernel, and the tensor-core instructions that its machine code must hold."""
    core = MMA_SYNC if by_mma(config) else WGMMA
    return {"arch": config.arch, "defines": [], "instructions": [core.opcodes["half"].name]}


def variables(config: ReducedConfig) -> dict[str, str]:
    """The template's variables, all of them text."""
    stages, total = memory(config)
    return spelt(
        {
            "type": config.a,
            "element": _ELEMENTS[config.a],
            "tile": str(config.tile),
            "tile_m": config.tile.m,
            "tile_n": config.tile.n,
            "stages": stages,
            "shared_memory": total,
            "pdl": config.pdl,
        }
    )
