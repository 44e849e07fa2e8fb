"""What is written of a kernel: its name, its summary, its table row and its template's variables."""

from __future__ import annotations

from typing import Any

from tilewright_generator.families.mqa_logits.config import MqaLogitsConfig, columns
from tilewright_generator.families.mqa_logits.memory import TILE, shared_bytes, threads
from tilewright_generator.families.shared import named, number, spelt, with_launch

_ELEMENTS = {"f32": "F32", "bf16": "Bf16"}
_PRODUCTS = {"wgmma": "Wgmma", "mma_sync": "MmaSync"}


def kernel_name(config: MqaLogitsConfig) -> str:
    """See `named`."""
    last = "nopdl" * (not config.pdl)
    if config.form == "schedule":
        return named("mqa_logits", config.arch, config.form, last)
    return named(
        "mqa_logits",
        config.arch,
        config.form,
        f"{config.heads}x{config.head_dim}",
        config.d,
        f"{config.queries}q" + f"{config.pieces}p" * (config.pieces > 1),
        f"{config.warpgroups}wg",
        f"{config.stages}stages",
        "mmasync" * (config.mma == "mma_sync" and config.arch == "sm_90a"),
        last,
    )


def formula(config: MqaLogitsConfig) -> str:
    """What the kernel computes, in the terms of its caller."""
    if config.form == "schedule":
        return "schedule[b] = the sequence and the split of its keys at which thread block b begins"
    keys = "start[i] <= j < end[i]" if config.form == "ragged" else "j < length[i], keys in pages"
    return f"out[i,j] = scale[j] * sum over h of weight[i,h] * relu(Q[i,h,:] . K[j,:]), {keys}"


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
    return f"{config.form}, {config.heads} heads of {config.head_dim} -> {config.d}, {work_text(config)}"


def facts(config: MqaLogitsConfig) -> dict[str, Any]:
    """Derived numbers that the runtime needs."""
    return {"smem_bytes": shared_bytes(config), "threads": threads(config)}


def build(config: MqaLogitsConfig) -> dict[str, Any]:
    """How the kernel is compiled, and which instructions its machine code must hold."""
    instructions = []
    if config.form != "schedule":
        instructions = [
            "QGMMA" if config.mma == "wgmma" else "QMMA" if number(config.arch) >= 120 else "HMMA"
        ]
    made: dict[str, Any] = {"arch": config.arch, "defines": [], "instructions": instructions}
    if config.form != "schedule" and number(config.arch) >= 120:
        made["spills"] = "ptxas keeps addresses of tensor maps on the stack there, in the warps that load"
    return made


def template(config: MqaLogitsConfig) -> str:
    """The template of the kernel's source."""
    return "mqa_logits/kernel.cu.j2"


def variables(config: MqaLogitsConfig) -> dict[str, str]:
    """The template's variables, all of them text."""
    schedule = config.form == "schedule"
    return spelt(
        {
            "formula": formula(config),
            "types": "lengths" if schedule else f"Q, K e4m3, scales, weights f32, out {config.d}",
            "work": with_launch(work_text(config), config),
            "host": "ScheduleHost" if schedule else "LogitsHost",
            "kernel": _kernel(config),
            "threads": threads(config),
            "shared_memory": shared_bytes(config),
            "pdl": config.pdl,
        }
    )


def _kernel(config: MqaLogitsConfig) -> str:
    """The kernel's type. Its parameters are the configuration's fields."""
    if config.form == "schedule":
        return f"ScheduleKernel<{threads(config)}, kPdl>"
    numbers = (
        config.heads, config.head_dim, config.queries, config.pieces, config.stages, config.warpgroups,
    )  # fmt: skip
    return (
        f"Kernel<mqa_logits::{config.form.capitalize()}, mqa_logits::{_PRODUCTS[config.mma]}, "
        f"{', '.join(map(str, numbers))}, sm90::{_ELEMENTS[config.d]}, kPdl>"
    )
