"""What is written of a kernel: its name, its summary, its table row and its template's variables."""

from __future__ import annotations

from typing import Any

from tilewright_generator.families.mqa_logits.config import MqaLogitsConfig, columns
from tilewright_generator.families.mqa_logits.memory import TILE, shared_bytes, threads
from tilewright_generator.families.shared import named, number, spelt, with_launch

_ELEMENTS = {"f32": "F32", "bf16": "Bf16"}
_PRODUCTS = {"wgmma": "Wgmma", "mma_sync": "MmaSync", "block_scaled": "BlockScaled"}


def kernel_name(config: MqaLogitsConfig) -> str:
    """See `named`."""
    last = "nopdl" * (not config.pdl)
    if config.form == "schedule":
        return named("mqa_logits", config.arch, config.form, last)
    return named(
        "mqa_logits",
        config.arch,
        config.form,
        "fp4" * (config.q == "mxfp4"),
        f"{config.heads}x{config.head_dim}",
        config.d,
        f"{config.queries}q" + f"{config.pieces}p" * (config.pieces > 1),
        f"{config.warpgroups}wg",
        f"{config.stages}stages",
        config.mma.replace("_", "") * (config.mma != _usual(config)),
        last,
    )


def _usual(config: MqaLogitsConfig) -> str:
    """How kernels of the architecture multiply, whose names do not say it."""
    other = "block_scaled" if config.q == "mxfp4" and number(config.arch) >= 120 else "mma_sync"
    return "wgmma" if config.arch == "sm_90a" else other


def formula(config: MqaLogitsConfig) -> str:
    """What the kernel computes, in the terms of its caller."""
    if config.form == "schedule":
        return "schedule[b] = the sequence and the split of its keys at which thread block b begins"
    keys = "start[i] <= j < end[i]" if config.form == "ragged" else "j < length[i], keys in pages"
    scale = "scale[j] * " * (config.q == "e4m3")
    return f"out[i,j] = {scale}sum over h of weight[i,h] * relu(Q[i,h,:] . K[j,:]), {keys}"


def work_text(config: MqaLogitsConfig) -> str:
    """How the work is done, in words."""
    if config.form == "schedule":
        return "one thread block, two passes over the lengths"
    pieces = f" in {config.pieces} pieces" if config.pieces > 1 else ""
    return (
        f"tiles of {TILE} keys with {config.queries} queries ({columns(config)} columns){pieces}, "
        f"{config.stages} stages, {config.warpgroups} warpgroups, {config.mma}"
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
    found = [] if config.form == "schedule" else [_instruction(config)]
    return {"arch": config.arch, "defines": [], "instructions": found}


def _instruction(config: MqaLogitsConfig) -> str:
    fp8 = config.q == "e4m3"
    if config.mma == "wgmma":
        return "QGMMA" if fp8 else "HGMMA"
    if number(config.arch) >= 120 and config.mma == ("mma_sync" if fp8 else "block_scaled"):
        return "QMMA" if fp8 else "OMMA"
    return "HMMA"


def template(config: MqaLogitsConfig) -> str:
    """The template of the kernel's source."""
    return "mqa_logits/kernel.cu.j2"


def variables(config: MqaLogitsConfig) -> dict[str, str]:
    """The template's variables, all of them text."""
    schedule = config.form == "schedule"
    return spelt(
        {
            "formula": formula(config),
            "types": "lengths" if schedule else _types(config),
            "work": with_launch(work_text(config), config),
            "host": "ScheduleHost" if schedule else "LogitsHost",
            "kernel": _kernel(config),
            "threads": threads(config),
            "shared_memory": shared_bytes(config),
            "pdl": config.pdl,
        }
    )


def _types(config: MqaLogitsConfig) -> str:
    scales = "scales, weights f32" if config.q == "e4m3" else "scales words of ue8m0, weights f32"
    return f"Q, K {config.q}, {scales}, out {config.d}"


def _kernel(config: MqaLogitsConfig) -> str:
    """The kernel's type. Its parameters are the configuration's fields."""
    if config.form == "schedule":
        return f"ScheduleKernel<{threads(config)}, kPdl>"
    numbers = (
        config.heads, config.head_dim, config.queries, config.pieces, config.stages, config.warpgroups,
    )  # fmt: skip
    decoded = "Decoded" * (config.q == "mxfp4" and config.mma != "block_scaled")
    return (
        f"Kernel<mqa_logits::{config.form.capitalize()}, mqa_logits::{decoded}{_PRODUCTS[config.mma]}, "
        f"{', '.join(map(str, numbers))}, sm90::{_ELEMENTS[config.d]}, kPdl>"
    )
