"""What is written of a kernel: its name, its summary, its table row and its template's variables."""

from dataclasses import fields
from typing import Any

from tilewright.configurations.shared import camel, named, spelt, with_launch
from tilewright.families.mqa_logits import rules
from tilewright.families.mqa_logits.config import MULTIPLIERS, MqaLogitsConfig, MqaLogitsFacts

RULES = rules.RULES


def kernel_name(config: MqaLogitsConfig) -> str:
    """See `named`. How kernels of an architecture multiply, only names of those that emulate say."""
    pieces, run = f"{config.pieces}p" * (config.pieces > 1), f"{config.run}r" * (config.run > 1)
    own = (
        "fp4" * (config.q == "mxfp4"), f"{config.heads}x{config.head_dim}", config.d,
        f"{config.queries}q{pieces}{run}", f"{config.warpgroups}wg", f"{config.stages}stages",
        config.mma.replace("_", "") * config.emulates,
    )  # fmt: skip
    return named("mqa_logits", config.arch, config.form, *own[: 7 * config.tiled], "nopdl" * (not config.pdl))


def work_text(config: MqaLogitsConfig) -> str:
    """How the work is done, in words."""
    if not config.tiled:
        return "one thread block, two passes over the lengths"
    tile = f"tiles of {config.tile} keys with {config.queries} queries ({config.columns} columns)"
    pieces = f" in {config.pieces} pieces" * (config.pieces > 1)
    row = f", {config.run} in a row" * (config.run > 1)
    return f"{tile}{pieces}{row}, {config.stages} stages, {config.warpgroups} warpgroups, {config.mma}"


def summary(config: MqaLogitsConfig) -> str:
    """One line for lists."""
    logits = f"{config.form}, {config.heads} heads of {config.head_dim}, {config.q} -> {config.d}"
    return f"{logits if config.tiled else 'schedule of pages'}, {work_text(config)}"


def facts(config: MqaLogitsConfig) -> MqaLogitsFacts:
    """Derived numbers that the runtime needs."""
    threads = (config.warpgroups + 1) * 128 if config.tiled else 1024  # a warpgroup loads
    return {"smem_bytes": config.shared_bytes, "threads": threads}


def build(config: MqaLogitsConfig) -> dict[str, Any]:
    """How the kernel is compiled, and which instructions its machine code must hold."""
    name = MULTIPLIERS[config.mma, config.q][1 + config.emulates]
    return {"arch": config.arch, "defines": [], "instructions": [name] * (config.tiled and name != "")}


def variables(config: MqaLogitsConfig) -> dict[str, str]:
    """The template's variables, all of them text: the configuration but what others say, and what follows."""
    own = {one.name: getattr(config, one.name) for one in fields(config) if one.name not in ("arch", "mma")}
    tensor = config.mma == "tcgen05"
    products = "Emulated" * (tensor and config.emulates) + "Decoded" * config.decodes + camel(config.mma)
    products += "Fp4" * (tensor and config.q == "mxfp4")
    own |= {"kernel": "Tensor" * tensor + "Kernel", "products": products, **facts(config)}
    work = with_launch(work_text(config), config)
    return spelt({**own, "element": camel(config.d), "work": work})
