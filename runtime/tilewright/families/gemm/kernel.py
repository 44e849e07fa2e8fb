"""The name, summary, table row and template variables of a `gemm` kernel."""

from __future__ import annotations

from typing import Any

from tilewright.configurations.family import Settling
from tilewright.configurations.shared import flag
from tilewright.configurations.sources import alignment, memory_variables, named, spelt, with_launch
from tilewright.families.gemm import kernel_mainloops as mainloops
from tilewright.families.gemm import rules
from tilewright.families.gemm.config import GemmConfig, GemmFacts
from tilewright.families.gemm.memory import memory
from tilewright.families.gemm.problem import GATED
from tilewright.formats.types import bits

RULES = rules.RULES
settling = Settling("mainloop", "lean", rules.SETTLED)


def template(config: GemmConfig) -> str:
    """The template that a kernel is rendered from."""
    mainloop = mainloops.of(config)
    name = "gated" if config.activation in GATED else mainloop.template
    return f"gemm/{name}.{'py' if mainloop.compiler else 'cu'}.j2"


def host(config: GemmConfig) -> str:
    """The header with a unit's host code, which its module's table includes: a unit with the lean, mma or
    cute_dsl mainloop, or that of tcgen05, has no host code except its facts."""
    cute_dsl = flag("tilewright/gemm/cute_dsl_host.hpp", mainloops.of(config).compiler == "cute_dsl")
    if config.activation in GATED:
        return "tilewright/gemm/gated_host.hpp"
    return cute_dsl or flag("tilewright/gemm/lean_host.hpp", config.mainloop in ("lean", "mma"))


def kernel_name(config: GemmConfig) -> str:
    """See `named`."""
    own, cluster = config.mainloop != "cutlass", mainloops.of(config).fixed_cluster
    return named(
        "gemm", config.arch, config.a, config.b, config.acc, config.d, config.layout, config.tile,
        flag(str(config.cluster), cluster), flag(config.mainloop, own),
        config.schedule.replace("cooperative", "coop"),
        flag("fastacc", config.fast_accum), flag("streamk", config.scheduler == "stream_k"),
        flag("swap", config.swap_ab),
        flag("bias", config.bias and not own), config.activation.replace("none", "").replace("given", "act"),
        flag("noc", config.c == "none" and not own),
        flag(f"{config.stages}stages", config.stages != "auto"), flag("nopdl", not config.pdl),
    )  # fmt: skip


def formula(config: GemmConfig) -> str:
    """The formula that the kernel computes, in the terms of its caller."""
    scales = "" if config.acc == "s32" else " * scale_a * scale_b"
    added = flag(" + beta * C[m,n]", config.c == "same") + flag(" + bias[n]", config.bias)
    terms = f"alpha{scales} * A[m,k] B[k,n]{added}"
    result = flag("scale_result * ", bits(config.d) == 8)
    if config.activation in GATED:
        return f"D[m,n/2] = silu(x[m,:n/2]) * x[m,n/2:], x = {terms}"
    if config.activation != "none" or result:
        terms = f"{activation_text(config)}({terms})"
    return f"D[m,n] = {result}{terms}"


def activation_text(config: GemmConfig) -> str:
    """The activation's name in C++; empty if there is none."""
    return config.activation.replace("none", "").replace("given", "activation")


def schedule_text(config: GemmConfig) -> str:
    """Schedule, scheduler and other properties of the main loop, in words."""
    words = [mainloops.of(config).words(config)]
    if config.a in ("e4m3", "e5m2") and config.mainloop not in ("stream", "tcgen05"):
        words.append("fast accumulation" if config.fast_accum else "promoted accumulation")
    if config.swap_ab:
        words.append("operands swapped")
    return ", ".join(words)


def summary(config: GemmConfig) -> str:
    """One line for lists."""
    stages, _ = memory(config)
    epilogue = filter(None, (flag("bias", config.bias), activation_text(config)))
    return (
        f"{config.a} x {config.b} -> {' + '.join([config.d, *epilogue])}, {config.layout}, "
        f"tile {config.tile}, cluster {config.cluster}, {stages} stages, {schedule_text(config)}"
    )


def facts(config: GemmConfig) -> GemmFacts:
    """Derived numbers that the runtime needs; alignments are in elements (TMA: 16 bytes)."""
    mainloop, (stages, total) = mainloops.of(config), memory(config)
    return {
        **mainloop.facts(config),
        "stages": stages,
        "smem_bytes": total,
        "threads": mainloop.threads(config),
        "alignment": alignment(config),
    }


def build(config: GemmConfig) -> dict[str, Any]:
    """Compiler settings of the kernel, and the tensor-core instructions that its machine code must hold."""
    mainloop = mainloops.of(config)
    standard = {"standard": "c++14"} if config.mainloop in ("lean", "mma") else {}
    return {
        "arch": config.arch,
        "defines": mainloop.defines(config),
        "instructions": [mainloop.instruction(config)],
        **standard,
        **({"compiler": mainloop.compiler} if mainloop.compiler else {}),
    }


def variables(config: GemmConfig) -> dict[str, str]:
    """The template's variables, all of them text."""
    in_clusters = flag(f" in clusters of {config.cluster}", mainloops.of(config).fixed_cluster)
    common: dict[str, Any] = {
        "formula": formula(config),
        "operands": _operands_text(config),
        **memory_variables(config.tile, memory(config), in_clusters),
        "schedule": with_launch(schedule_text(config), config),
        "pdl": config.pdl,
    }
    return spelt(common | mainloops.of(config).variables(config))


def _operands_text(config: GemmConfig) -> str:
    a = "row-major" if config.layout[0] == "t" else "column-major"
    b = "column-major" if config.layout[1] == "n" else "row-major"
    c_and_d = "C and D" if config.c == "same" and config.mainloop in ("cutlass", "cute_dsl") else "D"
    return f"A {config.a} {a}, B {config.b} {b}, {c_and_d} {config.d} row-major, summed in {config.acc}"
