"""What is written of a kernel: its name, its summary, its table row and its template's variables."""

from __future__ import annotations

from typing import Any

from tilewright_generator.families.mqa_logits.config import (
    TILE,
    MqaLogitsConfig,
    columns,
    decodes,
    shared_bytes,
    threads,
)
from tilewright_generator.families.shared import named, number, spelt, with_launch

_PRODUCTS = {"wgmma": "Wgmma", "mma_sync": "MmaSync", "block_scaled": "BlockScaled"}


def kernel_name(config: MqaLogitsConfig) -> str:
    """See `named`. How kernels of an architecture usually multiply, their names do not say."""
    usual = "wgmma" if config.arch == "sm_90a" else "mma_sync"
    if number(config.arch) >= 120 and config.q == "mxfp4":
        usual = "block_scaled"
    parts = (
        "fp4" * (config.q == "mxfp4"),
        f"{config.heads}x{config.head_dim}",
        config.d,
        f"{config.queries}q"
        + f"{config.pieces}p" * (config.pieces > 1)
        + f"{config.run}r" * (config.run > 1),
        f"{config.warpgroups}wg",
        f"{config.stages}stages",
        config.mma.replace("_", "") * (config.mma != usual),
    )
    own = () if config.form == "schedule" else parts
    return named("mqa_logits", config.arch, config.form, *own, "nopdl" * (not config.pdl))


def work_text(config: MqaLogitsConfig) -> str:
    """How the work is done, in words."""
    if config.form == "schedule":
        return "one thread block, two passes over the lengths"
    pieces = f" in {config.pieces} pieces" if config.pieces > 1 else ""
    row = f"{config.run} in a row, " if config.run > 1 else ""
    return (
        f"tiles of {TILE} keys with {config.queries} queries ({columns(config)} columns){pieces}, "
        f"{row}{config.stages} stages, {config.warpgroups} warpgroups, {config.mma}"
    )


def summary(config: MqaLogitsConfig) -> str:
    """One line for lists."""
    if config.form == "schedule":
        return f"schedule of pages, {work_text(config)}"
    heads = f"{config.heads} heads of {config.head_dim}, {config.q}"
    return f"{config.form}, {heads} -> {config.d}, {work_text(config)}"


def facts(config: MqaLogitsConfig) -> dict[str, Any]:
    """Derived numbers that the runtime needs."""
    return {"smem_bytes": shared_bytes(config), "threads": threads(config)}


def build(config: MqaLogitsConfig) -> dict[str, Any]:
    """How the kernel is compiled, and which instructions its machine code must hold."""
    fp8, instruction = config.q == "e4m3", "HMMA"
    if config.mma == "wgmma":
        instruction = "QGMMA" if fp8 else "HGMMA"
    elif number(config.arch) >= 120 and config.mma == ("mma_sync" if fp8 else "block_scaled"):
        instruction = "QMMA" if fp8 else "OMMA"
    found = [] if config.form == "schedule" else [instruction]
    return {"arch": config.arch, "defines": [], "instructions": found}


def variables(config: MqaLogitsConfig) -> dict[str, str]:
    """The template's variables, all of them text."""
    facts = {"threads": threads(config), "shared_memory": shared_bytes(config), "pdl": config.pdl}
    texts = _schedule(config) if config.form == "schedule" else _logits(config)
    return spelt({**facts, **texts, "work": with_launch(work_text(config), config)})


def _schedule(config: MqaLogitsConfig) -> dict[str, str]:
    return {
        "formula": "schedule[b] = the sequence and the split of its keys at which thread block b begins",
        "types": "lengths",
        "host": "ScheduleHost",
        "kernel": f"ScheduleKernel<{threads(config)}, kPdl>",
    }


def _logits(config: MqaLogitsConfig) -> dict[str, str]:
    keys = "start[i] <= j < end[i]" if config.form == "ragged" else "j < length[i], keys in pages"
    fp8, products = config.q == "e4m3", "Decoded" * decodes(config) + _PRODUCTS[config.mma]
    product = f"{'scale[j] * ' * fp8}sum over h of weight[i,h] * relu(Q[i,h,:] . K[j,:])"
    numbers = (
        config.heads,
        config.head_dim,
        config.queries,
        config.pieces,
        config.run,
        config.stages,
        config.warpgroups,
    )
    return {
        "formula": f"out[i,j] = {product}, {keys}",
        "types": f"Q, K {config.q}, scales{'' if fp8 else ' words of ue8m0'}, weights f32, out {config.d}",
        "host": "LogitsHost",
        "kernel": f"Kernel<mqa_logits::{config.form.capitalize()}, mqa_logits::{products}, "
        f"{', '.join(map(str, numbers))}, sm90::{config.d.capitalize()}, kPdl>",
    }
