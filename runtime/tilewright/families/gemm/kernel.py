"""The name, summary, table row and template variables of a `gemm` kernel."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

from tilewright.architectures.table import MMA_SYNC, TCGEN05, WGMMA, has_tensor_core
from tilewright.configurations import lean_tiles
from tilewright.configurations.family import Settling
from tilewright.configurations.shared import flag
from tilewright.configurations.sources import (
    CUTLASS_TYPES,
    alignment,
    k_contiguous,
    kernel_operands,
    named,
    spelt,
    with_launch,
)
from tilewright.families.gemm import rules
from tilewright.families.gemm.config import GemmConfig, GemmFacts, LeanFacts
from tilewright.families.gemm.memory import (
    STREAM_WARPS,
    SUBTILE_BUFFERS,
    SUBTILE_COLUMNS,
    TCGEN05_COLUMNS,
    exchanges,
    memory,
    sms,
    warpgroups,
)
from tilewright.formats.types import bits

RULES = rules.RULES
settling = Settling("mainloop", "lean", rules.SETTLED)

ACTIVATIONS = {"none": "Identity", "relu": "ReLu", "gelu": "GELU", "silu": "SiLu"}
_OPERANDS = {"e4m3": "fp8", "e5m2": "fp8", "s8": "s8", "tf32": "tf32"}  # the others: half
_USUAL_COLUMNS = (8, 16, 32, 64, 96, 128, 192, 256)  # cute/arch/mma_sm90.hpp


def template(config: GemmConfig) -> str:
    """The template that a kernel is rendered from."""
    mainloop = _of(config)
    return f"gemm/{mainloop.template}.{'py' if mainloop.compiler else 'cu'}.j2"


def host(config: GemmConfig) -> str:
    """The header with a unit's host code, which its module's table includes: a unit with the lean, mma or
    cute_dsl mainloop, or that of tcgen05, has no host code except its facts."""
    cute_dsl = flag("tilewright/gemm/cute_dsl_host.hpp", _of(config).compiler == "cute_dsl")
    return cute_dsl or flag("tilewright/gemm/lean_host.hpp", config.mainloop in ("lean", "mma"))


def kernel_name(config: GemmConfig) -> str:
    """See `named`."""
    own = config.mainloop != "cutlass"
    return named(
        "gemm", config.arch, config.a, config.b, config.acc, config.d, config.layout, config.tile,
        flag(str(config.cluster), not own or _of(config).compiler == "cute_dsl"), flag(config.mainloop, own),
        config.schedule.replace("cooperative", "coop"),
        flag("fastacc", config.fast_accum), flag("streamk", config.scheduler == "stream_k"),
        flag("swap", config.swap_ab),
        flag("bias", config.bias and not own), config.activation.replace("none", "").replace("given", "act"),
        flag("noc", config.c == "none" and not own),
        flag(f"{config.stages}stages", config.stages != "auto"), flag("nopdl", not config.pdl),
    )  # fmt: skip


def formula(config: GemmConfig) -> str:
    """What the kernel computes, in the terms of its caller."""
    scales = "" if config.acc == "s32" else " * scale_a * scale_b"
    added = flag(" + beta * C[m,n]", config.c == "same") + flag(" + bias[n]", config.bias)
    terms = f"alpha{scales} * A[m,k] B[k,n]{added}"
    result = flag("scale_result * ", bits(config.d) == 8)
    if config.activation != "none" or result:
        terms = f"{activation_text(config)}({terms})"
    return f"D[m,n] = {result}{terms}"


def activation_text(config: GemmConfig) -> str:
    """The activation's name in C++; empty if there is none."""
    return config.activation.replace("none", "").replace("given", "activation")


def schedule_text(config: GemmConfig) -> str:
    """Schedule, scheduler and other properties of the main loop, in words."""
    words = [_of(config).words(config)]
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
    mainloop, (stages, total) = _of(config), memory(config)
    return {
        **mainloop.facts(config),
        "stages": stages,
        "smem_bytes": total,
        "threads": mainloop.threads(config),
        "alignment": alignment(config),
    }


def build(config: GemmConfig) -> dict[str, Any]:
    """How the kernel is compiled, and which tensor-core instruction its machine code must hold."""
    mainloop = _of(config)
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
    stages, total = memory(config)
    compiled_in = config.mainloop in ("cutlass", "cute_dsl", "tcgen05")
    in_clusters = f" in clusters of {config.cluster}" if compiled_in else ""
    common: dict[str, Any] = {
        "formula": formula(config),
        "operands": _operands_text(config),
        "memory": f"{config.tile}{in_clusters}, {stages} stages, {total:,} bytes of shared memory",
        "schedule": with_launch(schedule_text(config), config),
        "shared_memory": total,
        "pdl": config.pdl,
    }
    return spelt(common | _of(config).variables(config))


class _Mainloop(Protocol):
    """The parts of kernels' sources that depend on the mainloop."""

    template: ClassVar[str]
    compiler: ClassVar[str] = ""  # empty for nvcc

    def words(self, config: GemmConfig) -> str:
        """The mainloop, in words."""

    def threads(self, config: GemmConfig) -> int:
        """The threads of one producer warpgroup and two consumers, as both schedules of CUTLASS have them."""
        return 384

    def facts(self, config: GemmConfig) -> LeanFacts:
        """Facts beside those of every kernel."""
        return {}

    def instruction(self, config: GemmConfig) -> str:
        return WGMMA.opcodes[_OPERANDS.get(config.a, "half")].name

    def defines(self, config: GemmConfig) -> list[str]:
        return []

    def variables(self, config: GemmConfig) -> dict[str, Any]:
        """Variables beside those of every template."""


class _Stream(_Mainloop):
    template = "stream"

    def words(self, config: GemmConfig) -> str:
        return "k divided over the warps of a thread block"

    def threads(self, config: GemmConfig) -> int:
        return 32 * STREAM_WARPS

    def instruction(self, config: GemmConfig) -> str:
        return MMA_SYNC.opcodes["half"].name

    def variables(self, config: GemmConfig) -> dict[str, Any]:
        step = 64  # bytes of k of two mma.sync
        elements = {f"element_{name}": getattr(config, name).capitalize() for name in "abd"}
        steps = lean_tiles.boxes(config) * lean_tiles.BOX_BYTES // step
        return elements | {"steps": steps, "activation": config.activation.capitalize()}


class _Lean(_Mainloop):
    template = "lean"

    def words(self, config: GemmConfig) -> str:
        return f"{config.schedule}, lean mainloop, clusters and splits of k at run time"

    def threads(self, config: GemmConfig) -> int:
        return 128 * (warpgroups(config).consumers + 1)

    def facts(self, config: GemmConfig) -> LeanFacts:
        _, rows, columns = warpgroups(config)
        pieces = rows * (columns // lean_tiles.shared_piece_columns(columns, config.swap_ab, bits(config.d)))
        return {"cluster_multiple": (1, 1), "splits": exchanges(config), "pieces": pieces}

    def variables(self, config: GemmConfig) -> dict[str, Any]:
        promotes = bits(config.a) == 8 and not config.fast_accum
        return lean_tiles.variables(config) | {
            "stages": memory(config).stages,
            "warpgroups": config.schedule.capitalize(),
            "sum": "PromotedSum" if promotes else "PlainSum",
            "activation": config.activation.capitalize(),
        }


class _Mma(_Lean):
    template = "mma"

    def words(self, config: GemmConfig) -> str:
        return f"{config.schedule}, mma.sync, splits of k at run time"

    def facts(self, config: GemmConfig) -> LeanFacts:
        return {"splits": True}

    def instruction(self, config: GemmConfig) -> str:
        """FP8 is multiplied as FP16 on sm_90a, whose mma.sync has no instruction for it."""
        fp8 = bits(config.a) == 8 and has_tensor_core(config.arch, MMA_SYNC)
        return MMA_SYNC.opcodes["fp8" if fp8 else "half"].name


class _CuteDsl(_Mainloop):
    template = "cute_dsl"
    compiler = "cute_dsl"

    def words(self, config: GemmConfig) -> str:
        return f"{config.schedule}, data-parallel tiles"

    def variables(self, config: GemmConfig) -> dict[str, Any]:
        cluster = config.cluster
        assert cluster != "dynamic"  # by the rule cluster_size
        return {
            "element": {"bf16": "BFloat16", "f16": "Float16"}[config.a],
            "addend": f"TILEWRIGHT_ADDEND_{config.d.upper()}",
            "tile_m": config.tile.m,
            "tile_n": config.tile.n,
            "tile_k": config.tile.k,
            "cluster_m": cluster.m,
            "cluster_n": cluster.n,
            "stages": memory(config).stages,
            "threads": self.threads(config),
            "subtile": SUBTILE_COLUMNS,
            "buffers": SUBTILE_BUFFERS,
        }


class _Tcgen05(_Mainloop):
    template = "tcgen05"
    compiler = "cute_dsl"

    def words(self, config: GemmConfig) -> str:
        return f"MMAs on {sms(config)} SM{flag('s', sms(config) > 1)}, data-parallel tiles"

    def threads(self, config: GemmConfig) -> int:
        """Four warps of the epilogue, one that multiplies, one that loads."""
        return 192

    def instruction(self, config: GemmConfig) -> str:
        return TCGEN05.opcodes[_OPERANDS.get(config.a, "half")].name

    def variables(self, config: GemmConfig) -> dict[str, Any]:
        cluster, (a, b) = config.cluster, kernel_operands(config)
        assert cluster != "dynamic"  # by the rule tcgen05_cluster
        return {
            "element_a": a,
            "element_b": b,
            "element_d": config.d,
            "map_a": _MAPS[a],
            "map_d": _MAPS[config.d],
            "tile_m": config.tile.m,
            "tile_n": config.tile.n,
            "tile_k": config.tile.k,
            "cluster_m": cluster.m,
            "cluster_n": cluster.n,
            "sms": sms(config),
            "stages": memory(config).stages,
            "threads": self.threads(config),
            "subtile": TCGEN05_COLUMNS if config.tile.n % TCGEN05_COLUMNS == 0 else 16,
            "buffers": 0 if config.swap_ab else SUBTILE_BUFFERS,
            "swapped": config.swap_ab,
            "swapped_in_python": str(config.swap_ab),
        }


# The driver's type of a tensor map, and bytes of an element: TMA rounds a TF32 from F32.
_MAPS = {
    "bf16": "BFLOAT16, 2", "f16": "FLOAT16, 2", "f32": "FLOAT32, 4", "tf32": "TFLOAT32, 4",
    "e4m3": "UINT8, 1", "e5m2": "UINT8, 1", "s8": "UINT8, 1", "s32": "INT32, 4",
}  # fmt: skip


class _Cutlass(_Mainloop):
    template = "kernel"

    def words(self, config: GemmConfig) -> str:
        tiles = "stream-K" if config.scheduler == "stream_k" else "data-parallel tiles"
        return f"{config.schedule}, {tiles}"

    def defines(self, config: GemmConfig) -> list[str]:
        # CUTLASS 4.2's stream-K scheduler does not compile under its own switch, which also adds an early
        # launch of the dependent kernel; defining what that switch leads to keeps the wait, all PDL needs.
        pdl = "CUTLASS_GDC_ENABLED=1" if config.scheduler == "stream_k" else "CUTLASS_ENABLE_GDC_FOR_SM90=1"
        # CuTe multiplies other N in pieces of down to 8 columns, unless a define makes it include all shapes
        # of wgmma: on an H200 a tile of 128x160x64 ran at half the rate.
        shapes = flag("CUTE_SM90_EXTENDED_MMA_SHAPES_ENABLED=1", config.tile.n not in _USUAL_COLUMNS)
        return [define for define in (flag(pdl, config.pdl), shapes) if define]

    def variables(self, config: GemmConfig) -> dict[str, Any]:
        a, b = kernel_operands(config)
        a_k, b_k = k_contiguous(config)
        cluster = config.cluster
        assert cluster != "dynamic"  # by the rule cluster_size
        # Fast accumulation is CUTLASS's plain mainloop under a name of its own.
        fp8_fast = "FP8FastAccum" if config.fast_accum else ""
        bias = "None" if not config.bias else "AlongM" if config.swap_ab else "AlongN"
        return {
            "swap_ab": config.swap_ab,
            "stages": memory(config).stages,
            "element_a": CUTLASS_TYPES[a],
            "element_b": CUTLASS_TYPES[b],
            "element_c": "void" if config.c == "none" else CUTLASS_TYPES[config.d],
            "element_d": CUTLASS_TYPES[config.d],
            "element_accumulator": CUTLASS_TYPES[config.acc],
            "layout_a": "RowMajor" if a_k else "ColumnMajor",
            "layout_b": "ColumnMajor" if b_k else "RowMajor",
            "layout_d": "ColumnMajor" if config.swap_ab else "RowMajor",
            "alignment_a": 128 // bits(a),
            "alignment_b": 128 // bits(b),
            "alignment_d": 128 // bits(config.d),
            "tile": f"Shape<Int<{config.tile.m}>, Int<{config.tile.n}>, Int<{config.tile.k}>>",
            "cluster": f"Shape<Int<{cluster.m}>, Int<{cluster.n}>, _1>",
            "bias": f"tilewright::Bias::{bias}",
            "activation": f"cutlass::epilogue::thread::{ACTIVATIONS[config.activation]}",
            "epilogue_schedule": "TmaWarpSpecialized" + flag("Cooperative", config.schedule == "cooperative"),
            "mainloop_schedule": f"KernelTmaWarpSpecialized{config.schedule.capitalize()}{fp8_fast}",
            "scheduler": "StreamKScheduler" if config.scheduler == "stream_k" else "PersistentScheduler",
        }


_MAINLOOPS = {
    "cutlass": _Cutlass(),
    "lean": _Lean(),
    "stream": _Stream(),
    "mma": _Mma(),
    "cute_dsl": _CuteDsl(),
    "tcgen05": _Tcgen05(),
}


def _of(config: GemmConfig) -> _Mainloop:
    return _MAINLOOPS[config.mainloop]


def _operands_text(config: GemmConfig) -> str:
    a = "row-major" if config.layout[0] == "t" else "column-major"
    b = "column-major" if config.layout[1] == "n" else "row-major"
    c_and_d = "C and D" if config.c == "same" and config.mainloop in ("cutlass", "cute_dsl") else "D"
    return f"A {config.a} {a}, B {config.b} {b}, {c_and_d} {config.d} row-major, summed in {config.acc}"
