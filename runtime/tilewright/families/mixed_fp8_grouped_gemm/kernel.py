"""The name, summary, table row and template variables of a kernel of `mixed_fp8_grouped_gemm`."""

from __future__ import annotations

from typing import Any

from tilewright.configurations.shared import flag
from tilewright.configurations.sources import memory_variables, named, spelt, with_launch
from tilewright.families.mixed_fp8_gemm import kernel as dense
from tilewright.families.mixed_fp8_gemm.config import MixedFp8GemmConfig
from tilewright.families.mixed_fp8_grouped_gemm import rules
from tilewright.families.mixed_fp8_grouped_gemm.memory import memory
from tilewright.families.mixed_gemm.config import MixedGemmFacts

RULES = rules.RULES


def kernel_name(config: MixedFp8GemmConfig) -> str:
    """See `named`."""
    return named(
        "mixed_fp8_grouped_gemm", config.arch, config.a, config.weight_format, config.d, config.tile,
        flag("fastacc", config.fast_accum), flag(config.schedule, config.schedule != "at_will"),
        flag(f"{config.k_groups}groups", config.k_groups > 1),
        flag(f"b{config.block}", config.block != "auto"),
        flag(f"w{config.width}", config.width != "auto"),
        flag(f"{config.stages}stages", config.stages != "auto"), flag("nopdl", not config.pdl),
    )  # fmt: skip


def schedule_text(config: MixedFp8GemmConfig) -> str:
    """How the work is done, in words."""
    words = (
        "groups read on the device, weights decoded to FP8 registers, operands swapped, clusters at run time"
    )
    if config.fast_accum:
        words += ", fast accumulation"
    return with_launch(words, config)


def summary(config: MixedFp8GemmConfig) -> str:
    """One line for lists."""
    return dense.summary_of(config, memory(config), schedule_text(config))


def facts(config: MixedFp8GemmConfig) -> MixedGemmFacts:
    """Derived numbers that the runtime needs; alignments are in elements."""
    stages, total = memory(config)
    return {
        **dense.facts(config),
        "stages": stages,
        "smem_bytes": total,
        "splits": False,
        "alignment": {"a": 16, "b": 1, "c": 1, "d": 8},
    }


def build(config: MixedFp8GemmConfig) -> dict[str, Any]:
    """As `mixed_fp8_gemm` builds a kernel; k is not split."""
    row = dense.build(config)
    if "spills" in row:
        row["spills"] = "three words of a thread, one of them in the main loop"
    return row


def variables(config: MixedFp8GemmConfig) -> dict[str, str]:
    """The template's variables, all of them text."""
    own = memory_variables(config.tile, memory(config)) | {"schedule": schedule_text(config)}
    return dense.shared_variables(config) | spelt(own)
