"""The name, summary, table row and template variables of a kernel of `mixed_fp8_grouped_gemm`."""

from __future__ import annotations

from tilewright.configurations.shared import flag
from tilewright.configurations.sources import named, spelt, with_launch
from tilewright.families.mixed_fp8_gemm import kernel as dense
from tilewright.families.mixed_fp8_gemm.config import MixedFp8GemmConfig, MixedFp8GemmFacts
from tilewright.families.mixed_fp8_grouped_gemm import rules
from tilewright.families.mixed_fp8_grouped_gemm.memory import memory

RULES = rules.RULES
build = dense.build


def kernel_name(config: MixedFp8GemmConfig) -> str:
    """See `named`."""
    return named(
        "mixed_fp8_grouped_gemm", config.arch, config.a, config.weight_format, config.d, config.tile,
        flag("fastacc", config.fast_accum), flag(f"{config.k_groups}groups", config.k_groups > 1),
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
    types = f"{config.a} x {config.weight_format} -> {config.d}"
    return f"{types}, tile {config.tile}, {memory(config).stages} stages, {schedule_text(config)}"


def facts(config: MixedFp8GemmConfig) -> MixedFp8GemmFacts:
    """Derived numbers that the runtime needs; alignments are in elements."""
    stages, total = memory(config)
    return {
        "stages": stages,
        "smem_bytes": total,
        "threads": 128 * (config.tile.m // 64 * config.k_groups + 1),
        "splits": False,
        "alignment": {"a": 16, "b": 1, "c": 1, "d": 8},
    }


def variables(config: MixedFp8GemmConfig) -> dict[str, str]:
    """The template's variables, all of them text."""
    stages, total = memory(config)
    return dense.variables(config) | spelt(
        {
            "memory": f"{config.tile}, {stages} stages, {total:,} bytes of shared memory",
            "schedule": schedule_text(config),
            "stages": stages,
            "shared_memory": total,
        }
    )
