"""The name, summary, table row and template variables of a kernel of `mixed_grouped_gemm`."""

from __future__ import annotations

from tilewright.configurations.shared import flag
from tilewright.configurations.sources import memory_variables, named, spelt, with_launch
from tilewright.families.mixed_gemm import kernel as dense
from tilewright.families.mixed_gemm.config import MixedGemmConfig, MixedGemmFacts, is_gated
from tilewright.families.mixed_grouped_gemm import rules
from tilewright.families.mixed_grouped_gemm.memory import memory

RULES = rules.RULES
build = dense.build
_SUM = "alpha * F[g] * sum over k of A[m,k] W[g,n,k] + bias[g,n]"
HEADERS = {
    (False, False): "mixed_grouped_gemm",
    (False, True): "gated",
    (True, False): "stream",
    (True, True): "gated_stream",
}
"""Headers by whether kernels are those of few rows, and gated."""
PLAIN, GATED = f"D[m,n] = {_SUM}", f"D[m,n/2] = silu(gate) * up, the halves of {_SUM}"


def template(config: MixedGemmConfig) -> str:
    """The template that a kernel is rendered from."""
    return f"mixed_grouped_gemm/{'stream' if config.mainloop == 'stream' else 'kernel'}.cu.j2"


def kernel_name(config: MixedGemmConfig) -> str:
    """See `named`."""
    return named(
        "mixed_grouped_gemm", config.arch, config.a, config.weight_format, config.tile,
        flag(config.mainloop, config.mainloop != "wgmma"), flag(f"{config.warps}warps", config.warps != 8),
        flag(f"{config.k_groups}kgroups", config.k_groups > 1),
        flag(config.schedule, config.schedule != "at_will"),
        flag(f"{config.stages}stages", config.stages != "auto"), flag("nopdl", not config.pdl),
        flag(config.activation, is_gated(config)),
    )  # fmt: skip


def schedule_text(config: MixedGemmConfig) -> str:
    """How the work is done, in words."""
    words = "groups read on the device, weights decoded to registers, operands swapped, clusters at run time"
    if config.mainloop == "stream":
        words = f"groups read on the device, {config.warps} warps divide k and load for themselves"
    return with_launch(words + dense.LOOPS[config.schedule], config)


def summary(config: MixedGemmConfig) -> str:
    """One line for lists."""
    return dense.summary_of(config, memory(config), schedule_text(config))


def facts(config: MixedGemmConfig) -> MixedGemmFacts:
    """Derived numbers that the runtime needs; alignments are in elements."""
    stages, total = memory(config)
    return {
        **dense.facts(config),
        "stages": stages,
        "smem_bytes": total,
        "splits": False,
        "alignment": {"a": 8, "b": 1, "c": 1, "d": 8},
    }


def variables(config: MixedGemmConfig) -> dict[str, str]:
    """The template's variables, all of them text."""
    gated, stream = is_gated(config), config.mainloop == "stream"
    own = memory_variables(config.tile, memory(config)) | {
        "schedule": schedule_text(config),
        "formula": GATED if gated else PLAIN,
        "gated": "Gated" if gated else "",
        "header": HEADERS[stream, gated],
    }
    return dense.shared_variables(config) | spelt(own)
