"""The name, summary, table row and template variables of a `grouped_gemm` kernel."""

from __future__ import annotations

from typing import Any

from tilewright.architectures.table import MMA_SYNC, WGMMA, has_tensor_core
from tilewright.configurations import lean_tiles
from tilewright.configurations.family import Settling
from tilewright.configurations.shared import flag
from tilewright.configurations.sources import (
    alignment,
    camel,
    kernel_operands,
    memory_variables,
    named,
    spelt,
    with_launch,
)
from tilewright.families.grouped_gemm import rules, tcgen05, tcgen05_plain
from tilewright.families.grouped_gemm.config import (
    GroupedGemmConfig,
    GroupedGemmFacts,
    by_mma,
    by_parts,
    by_tcgen05,
    fp4,
    narrow,
    own_scales,
    packed,
)
from tilewright.families.grouped_gemm.memory import blocks_of, buffers, memory, warpgroups
from tilewright.families.grouped_gemm.problem import PACKED_SCALES, scales_text
from tilewright.formats.types import bits

RULES = rules.RULES
# CUTLASS's scheduler reads the extents of groups before griddepcontrol.wait.
settling = Settling("mainloop", "lean", {"lean": {}, "mma": {}, "tcgen05": {"pdl": False}})
FP4_ELEMENTS = {"mxfp4": "sm120::E2m1", "e4m3": "sm90::E4m3"}  # of kernels that have an operand of FP4
CTA_MAPS = 8  # kCtaMaps of grouped_gemm/along_k_params.hpp

EARLY_LOADS = "B is constant, as the caller promises (grouped_gemm/weights_first.hpp)"

_WHEN = {
    "after": "when they are done",
    "in_turn": "when they are done, two warpgroups in turn",
    "overlapped": "while the next are computed",
    "halves": "while the other half of the columns is computed",
}


def template(config: GroupedGemmConfig) -> str:
    """The template that a kernel is rendered from."""
    if by_tcgen05(config):
        return f"grouped_gemm/tcgen05{flag('_plain', not packed(config))}.cu.j2"
    if narrow(config):
        return "grouped_gemm/narrow.cu.j2"
    kind = "fp4" if fp4(config) else "packed" if packed(config) else "mma" if by_mma(config) else "kernel"
    return f"grouped_gemm/{kind}.cu.j2"


def host(config: GroupedGemmConfig) -> str:
    """The header with a unit's host code, which its module's table includes; CUTLASS's units have theirs."""
    return flag("tilewright/grouped_gemm/host.hpp", not by_tcgen05(config))


def kernel_name(config: GroupedGemmConfig) -> str:
    """See `named`."""
    scaled = config.scales != "none"
    return named(
        "grouped_gemm", config.arch, config.a, config.b, config.d,
        flag("1x128", scaled and not packed(config)), flag(config.scales, scaled),
        flag(config.layout, config.layout != "tn"), config.tile, flag("mma", by_mma(config)),
        flag(config.schedule, by_tcgen05(config)), flag("swap", config.swap_ab),
        flag(config.promotion.replace("_", ""), config.promotion != "after"),
        flag(f"{config.store_buffers}buffer", config.store_buffers != "auto"),
        flag(f"{config.stages}stages", config.stages != "auto"),
        flag("nopdl", not config.pdl and not by_tcgen05(config)), flag("constantb", config.constant_b),
    )  # fmt: skip


def formula(config: GroupedGemmConfig) -> str:
    """The formula that the kernel computes, in the terms of its caller."""
    c = " + C[m,n]" if adds_c(config) else ""
    if config.scales == "none":
        return f"D[m,n] = sum over k of A[m,k] B[g,k,n]{c}"
    if packed(config):
        block = PACKED_SCALES[config.scales]
        return f"D[m,n] = sum over k of A[m,k] SA[m,k/{block}] B[g,k,n] SB[g,k/{block},n]{c}"
    column = "n/128" if config.scales == "128x128" else "n"
    return f"D[m,n] = sum over k of A[m,k] SA[m,k/128] B[g,k,n] SB[g,k/128,{column}]{c}"


def major(config: GroupedGemmConfig, operand: int) -> str:
    """The layout of the caller's A (0) or B (1), in words."""
    return "row-major" if config.layout[operand] == "t" else "column-major"


def schedule_text(config: GroupedGemmConfig) -> str:
    """The main loop, in words."""
    if by_tcgen05(config):
        pair = "one SM an MMA" if config.schedule == "1sm" else "two SMs an MMA"
        swapped = ", operands swapped" if config.swap_ab else ""
        return with_launch(f"CUTLASS's collective of groups, {pair}, clusters at run time{swapped}", config)
    if by_mma(config):
        words = ["lean mainloop of mma.sync", "groups at run time"]
    else:
        words = ["lean mainloop", "groups, clusters and splits of k at run time"]
    if packed(config):
        words.append("UE8M0 factors multiplied by the instruction")
    elif config.scales != "none" and by_mma(config):
        words.append("sums of 128 of k scaled a few columns at a time")
    elif config.scales != "none":
        words.append(f"sums of 128 of k scaled {_WHEN[config.promotion]}")
    if config.swap_ab:
        words.append("operands swapped")
    if config.constant_b:
        words.append("B, which is constant, loaded first")
    return with_launch(", ".join(words), config)


def summary(config: GroupedGemmConfig) -> str:
    """One line for lists."""
    scales = "" if config.scales == "none" else f", scales {scales_text(config.scales)}"
    return (
        f"{config.a} x {config.b} -> {config.d}{scales}, tile {config.tile}, {memory(config)[0]} stages, "
        f"{schedule_text(config)}"
    )


def facts(config: GroupedGemmConfig) -> GroupedGemmFacts:
    """Derived numbers that the runtime needs; alignments are in elements (TMA: 16 bytes)."""
    stages, total = memory(config)
    if by_tcgen05(config):
        return {
            "stages": stages,
            "smem_bytes": total,
            # Four single warps and four of the epilogue; F32 factors have a warp that loads them.
            "threads": 256 if packed(config) or config.scales == "none" else 384,
            "splits": False,
            "alignment": tcgen05.alignment(config) if packed(config) else alignment(config),
            "cluster_multiple": (2 if config.schedule == "2sm" else 1, 1),
        }
    return {
        "stages": stages,
        "smem_bytes": total,
        "threads": 128 * (warpgroups(config).consumers + 1),
        "splits": by_mma(config) or lean_tiles.epilogue_through_smem(config, stages),
        "alignment": alignment(config),
    }


def build(config: GroupedGemmConfig) -> dict[str, Any]:
    """Compiler settings of the kernel, and the tensor-core instructions that its machine code must hold."""
    if by_tcgen05(config):
        return tcgen05.build(config) if packed(config) else tcgen05_plain.build(config)
    fp8, core = bits(config.a) == 8, MMA_SYNC if by_mma(config) else WGMMA
    if by_mma(config) and not has_tensor_core(config.arch, MMA_SYNC):
        fp8 = False  # multiplied as FP16 on sm_90a, whose mma.sync has no instruction for it
    both_fp4 = config.a == config.b == "mxfp4"
    instruction = "mxfp4" if both_fp4 else "mx" if packed(config) else "fp8" if fp8 else "half"
    return {
        "arch": config.arch,
        "defines": [],
        **({"early_loads": EARLY_LOADS} if config.constant_b else {}),
        "instructions": [
            "".join(core.opcodes[instruction]) if fp4(config) else core.opcodes[instruction].name
        ],
    }


def fp4_variables(config: GroupedGemmConfig) -> dict[str, Any]:
    """Operands as a kernel of FP4 sees them, and its tile."""
    a, b = (FP4_ELEMENTS[dtype] for dtype in kernel_operands(config))
    m, n, k = config.tile
    tile = {"tile_m": m, "tile_n": n, "tile_k": k}
    return {"element_a": a, "element_b": b, "element_d": camel(config.d), "swap_ab": config.swap_ab, **tile}


def scale_variables(config: GroupedGemmConfig) -> dict[str, Any]:
    """What shares a scale factor, as templates say it; FP4 has one way."""
    if fp4(config):
        return {}
    if packed(config):
        return {"scale_block": PACKED_SCALES[config.scales]}
    a, b = own_scales(config)
    return {"scales_a": a.capitalize(), "scales_b": b.capitalize()}


def adds_c(config: GroupedGemmConfig) -> bool:
    """Whether a kernel can add a C."""
    return not by_tcgen05(config) or by_parts(config)


def variables(config: GroupedGemmConfig) -> dict[str, str]:
    """The template's variables, all of them text."""
    if by_tcgen05(config):
        own = tcgen05.variables(config) if packed(config) else tcgen05_plain.variables(config)
    else:
        own = _own_variables(config)
    return spelt(
        own
        | {
            "formula": formula(config),
            "operands": f"A {config.a} {major(config, 0)}, B {config.b} {major(config, 1)}, "
            f"{'C and D' if adds_c(config) else 'D'} {config.d} row-major",
            **memory_variables(config.tile, memory(config)),
            "schedule": schedule_text(config),
        }
    )


def has_forms(config: GroupedGemmConfig) -> bool:
    """Whether the kernel has forms (grouped_gemm/form.hpp): TMA stores its D, and 128x128 blocks have
    factors."""
    return config.scales == "128x128" and config.d != "f32" and not (by_mma(config) or by_tcgen05(config))


def form_along_k(config: GroupedGemmConfig) -> str:
    """The form for groups that divide k: "AlongK" where each group has tensor maps of its own
    (grouped_gemm/along_k.hpp), "MnAlongK" where a group is some rows of MN-major operands (mn_along_k.hpp);
    "" for a kernel without, whose general code serves such groups."""
    if by_mma(config) or by_tcgen05(config) or config.d != "f32" or config.tile.k * bits(config.a) != 128 * 8:
        return ""
    if config.swap_ab or warpgroups(config).consumers == 1:  # as both forms assert
        return ""
    if config.scales == "1x128":
        # cta_maps.hpp: a load in flight must not find its group's maps replaced by those of a later group.
        return "AlongK" if memory(config)[0] < CTA_MAPS else ""
    return "MnAlongK" if config.layout == "nt" else ""


def in_rounds(config: GroupedGemmConfig) -> bool:
    """Whether forms run the main loop in rounds (sm90/scaled_rounds.hpp): where two warpgroups of 64 rows
    promote sums after each stage, and have at least 128 columns. A tile of 144 would need eight copies of
    the loop."""
    tile = config.tile
    promoted = config.promotion == "after" and not config.swap_ab
    return promoted and tile.m == 128 and tile.n >= 128 and blocks_of(tile.n) <= 2 and tile.n % 32 == 0


def one_count(config: GroupedGemmConfig) -> bool:
    """Whether forms run the overlapped main loop of sm90/scaled_one_count.hpp: warpgroups of 64 rows."""
    return config.promotion == "overlapped" and not config.swap_ab and config.tile.m in (64, 128)


def kernel_around(config: GroupedGemmConfig) -> str:
    """The C++ type of a kernel with forms of their own, in terms of its `Base`; "" for a kernel without."""
    if form := form_along_k(config):
        return f"grouped_gemm::{form}<Base>"
    if config.constant_b:
        return "grouped_gemm::WeightsFirst<Base>"
    if not has_forms(config):
        return ""
    loop = "InRounds" if in_rounds(config) else "OneCount" if one_count(config) else ""
    base = f"grouped_gemm::{loop}<Base>" if loop else "Base"
    return f"grouped_gemm::ShortForms<{base}>"


def _own_variables(config: GroupedGemmConfig) -> dict[str, Any]:
    """The template variables of our own kernels."""
    tile = fp4_variables(config) if fp4(config) else lean_tiles.variables(config)
    promotion = {} if by_mma(config) else {"promotion": camel(config.promotion)}
    common = {"pdl": config.pdl, "store_buffers": buffers(config)}
    around = {} if by_mma(config) else {"around": kernel_around(config)}
    return tile | scale_variables(config) | promotion | common | around
