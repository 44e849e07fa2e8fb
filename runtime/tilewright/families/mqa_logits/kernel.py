"""The name, summary, table row and template variables of an `mqa_logits` kernel."""

from dataclasses import fields
from typing import Any

from tilewright.configurations.shared import flag
from tilewright.configurations.sources import camel, named, spelt, with_launch
from tilewright.families.mqa_logits import rules
from tilewright.families.mqa_logits.config import MULTIPLIERS, MqaLogitsConfig, MqaLogitsFacts

RULES = rules.RULES


def kernel_name(config: MqaLogitsConfig) -> str:
    """See `named`. The name holds the instruction only if the kernel emulates it."""
    pieces, run = flag(f"{config.pieces}p", config.pieces > 1), flag(f"{config.run}r", config.run > 1)
    tiles = (
        flag("fp4", config.q == "mxfp4"), f"{config.heads}x{config.head_dim}", config.d,
        f"{config.queries}q{pieces}{run}", f"{config.warpgroups}wg", f"{config.stages}stages",
        flag(config.mma.replace("_", ""), config.emulates),
    ) if config.tiled else ()  # fmt: skip
    return named("mqa_logits", config.arch, config.form, *tiles, flag("nopdl", not config.pdl))


def work_text(config: MqaLogitsConfig) -> str:
    """How the work is done, in words."""
    if not config.tiled:
        return "one thread block, two passes over the lengths"
    tile = f"tiles of {config.tile} keys with {config.queries} queries ({config.columns} columns)"
    pieces = flag(f" in {config.pieces} pieces", config.pieces > 1)
    row = flag(f", {config.run} in a row", config.run > 1)
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
    """Compiler settings of the kernel, and the instructions that its machine code must hold."""
    multiplier = MULTIPLIERS[config.mma, config.q]
    opcode = multiplier.emulation if config.emulates else multiplier.opcode
    return {"arch": config.arch, "defines": [], "instructions": [opcode] if config.tiled and opcode else []}


def variables(config: MqaLogitsConfig) -> dict[str, str]:
    """The template's variables, all of them text: the fields of the configuration, and what follows."""
    names = (field.name for field in fields(config) if field.name not in ("arch", "mma"))
    own = {name: getattr(config, name) for name in names}
    tensor = config.mma == "tcgen05"
    products = (
        flag("Emulated", tensor and config.emulates) + flag("Decoded", config.decodes) + camel(config.mma)
    )
    products += flag("Fp4", tensor and config.q == "mxfp4")
    own |= {"kernel": flag("Tensor", tensor) + "Kernel", "products": products, **facts(config)}
    work = with_launch(work_text(config), config)
    return spelt({**own, "element": camel(config.d), "work": work})
