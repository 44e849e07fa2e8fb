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
    tiled,
)
from tilewright_generator.families.shared import camel, named, number, spelt, with_launch

# Of sm_90a and sm_12x. All else is multiplied as 16 bits, by HMMA.
_INSTRUCTIONS = {
    ("wgmma", "e4m3"): "QGMMA", ("wgmma", "mxfp4"): "HGMMA",
    ("mma_sync", "e4m3"): "QMMA", ("block_scaled", "mxfp4"): "OMMA",
}  # fmt: skip


def kernel_name(config: MqaLogitsConfig) -> str:
    """See `named`. How kernels of an architecture usually multiply, their names do not say."""
    native = number(config.arch) >= 120 and config.q == "mxfp4"
    usual = "wgmma" if config.arch == "sm_90a" else "block_scaled" if native else "mma_sync"
    pieces, run = f"{config.pieces}p" * (config.pieces > 1), f"{config.run}r" * (config.run > 1)
    own = (
        "fp4" * (config.q == "mxfp4"), f"{config.heads}x{config.head_dim}", config.d,
        f"{config.queries}q{pieces}{run}", f"{config.warpgroups}wg", f"{config.stages}stages",
        config.mma.replace("_", "") * (config.mma != usual),
    )  # fmt: skip
    of_form = own if tiled(config) else ()
    return named("mqa_logits", config.arch, config.form, *of_form, "nopdl" * (not config.pdl))


def work_text(config: MqaLogitsConfig) -> str:
    """How the work is done, in words."""
    if not tiled(config):
        return "one thread block, two passes over the lengths"
    pieces = f" in {config.pieces} pieces" * (config.pieces > 1)
    row = f"{config.run} in a row, " * (config.run > 1)
    return (
        f"tiles of {TILE} keys with {config.queries} queries ({columns(config)} columns){pieces}, "
        f"{row}{config.stages} stages, {config.warpgroups} warpgroups, {config.mma}"
    )


def summary(config: MqaLogitsConfig) -> str:
    """One line for lists."""
    logits = f"{config.form}, {config.heads} heads of {config.head_dim}, {config.q} -> {config.d}"
    return f"{logits if tiled(config) else 'schedule of pages'}, {work_text(config)}"


def facts(config: MqaLogitsConfig) -> dict[str, Any]:
    """Derived numbers that the runtime needs."""
    return {"smem_bytes": shared_bytes(config), "threads": threads(config)}


def build(config: MqaLogitsConfig) -> dict[str, Any]:
    """How the kernel is compiled, and which instructions its machine code must hold."""
    multiplies = config.mma == "wgmma" or number(config.arch) >= 120
    found = _INSTRUCTIONS.get((config.mma, config.q), "HMMA") if multiplies else "HMMA"
    return {"arch": config.arch, "defines": [], "instructions": [found] if tiled(config) else []}


def variables(config: MqaLogitsConfig) -> dict[str, str]:
    """The template's variables, all of them text."""
    texts = {
        "formula": "schedule[b] = the sequence and the split of its keys at which thread block b begins",
        "types": "lengths",
        "host": "ScheduleHost",
        "kernel": f"ScheduleKernel<{threads(config)}, kPdl>",
    }
    if tiled(config):
        scale, words = ("scale[j] * ", "") if config.q == "e4m3" else ("", " words of ue8m0")
        keys = "start[i] <= j < end[i]" if config.form == "ragged" else "j < length[i], keys in pages"
        products = "Decoded" * decodes(config) + camel(config.mma)
        tile = f"{config.heads}, {config.head_dim}, {config.queries}, {config.pieces}, {config.run}"
        texts = {
            "formula": f"out[i,j] = {scale}sum over h of weight[i,h] * relu(Q[i,h,:] . K[j,:]), {keys}",
            "types": f"Q, K {config.q}, scales{words}, weights f32, out {config.d}",
            "host": "LogitsHost",
            "kernel": f"Kernel<mqa_logits::{camel(config.form)}, mqa_logits::{products}, {tile}, "
            f"{config.stages}, {config.warpgroups}, sm90::{camel(config.d)}, kPdl>",
        }
    work = with_launch(work_text(config), config)
    return spelt({**texts, **facts(config), "pdl": config.pdl, "work": work})
