"""The name, summary, table row and template variables of a kernel of `hc_prenorm`."""

from __future__ import annotations

from typing import Any

from tilewright.architectures.table import MMA_SYNC, WGMMA
from tilewright.configurations.shared import PipelineFacts, flag
from tilewright.configurations.sources import named, spelt, with_launch
from tilewright.families.hc_prenorm import rules
from tilewright.families.hc_prenorm.config import PrenormConfig, warps
from tilewright.families.hc_prenorm.memory import memory

RULES = rules.RULES


def kernel_name(config: PrenormConfig) -> str:
    """See `named`."""
    return named(
        "hc_prenorm",
        config.arch,
        config.tile,
        config.mma,
        flag(f"{config.warp_rows}rows", config.mma == "sync"),
        "" if config.stages == "auto" else f"{config.stages}stages",
        flag("nopdl", not config.pdl),
    )


def schedule_text(config: PrenormConfig) -> str:
    """How the work is done, in words."""
    how = "wgmma" if config.mma == "wgmma" else "mma.sync"
    return f"{memory(config).stages} stages filled by a warp, {warps(config)} warps multiply by {how}"


def summary(config: PrenormConfig) -> str:
    """One line for lists."""
    return f"bf16 x f32 -> f32 in TF32, tile {config.tile}, {schedule_text(config)}"


def facts(config: PrenormConfig) -> PipelineFacts:
    """Derived numbers that the runtime needs."""
    stages, total = memory(config)
    return {"stages": stages, "smem_bytes": total, "threads": 32 * (warps(config) + 1)}


def build(config: PrenormConfig) -> dict[str, Any]:
    """Compiler settings of the kernel, and the tensor-core instructions that its machine code must hold."""
    if config.mma == "wgmma":
        instruction = WGMMA.opcodes["tf32"].name + r"\.64x\d+x8\.F32\.TF32"
    else:
        instruction = MMA_SYNC.opcodes["tf32"].name + r"\.1688\.F32\.TF32"
    return {"arch": config.arch, "defines": [], "instructions": [instruction]}


def variables(config: PrenormConfig) -> dict[str, str]:
    """The template's variables, all of them text."""
    m, n, _ = config.tile
    stages, total = memory(config)
    groups = config.warp_rows // 16
    return spelt(
        {
            "tile": f"{config.tile}, {total:,} bytes of shared memory",
            "schedule": with_launch(schedule_text(config), config),
            "products": f"Wgmma<{n}>" if config.mma == "wgmma" else f"MmaSync<{n}, {groups}>",
            "tile_m": m,
            "tile_n": n,
            "stages": stages,
            "pdl": config.pdl,
            "shared_memory": total,
        }
    )
