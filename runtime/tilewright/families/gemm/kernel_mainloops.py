"""The parts of `gemm` kernels' sources and rows that depend on the mainloop."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

from tilewright.architectures.table import MMA_SYNC, TCGEN05, WGMMA, has_tensor_core
from tilewright.configurations import lean_tiles
from tilewright.configurations.shared import flag
from tilewright.configurations.sources import CUTLASS_TYPES, k_contiguous, kernel_operands
from tilewright.families.gemm.config import GemmConfig, LeanFacts
from tilewright.families.gemm.memory import (
    STREAM_WARPS,
    SUBTILE_BUFFERS,
    SUBTILE_COLUMNS,
    epilogue_through_smem,
    memory,
    shares_k,
    sms,
    tcgen05_columns,
    warpgroups,
)
from tilewright.families.gemm.problem import GATED
from tilewright.formats.types import bits

ACTIVATIONS = {"none": "Identity", "relu": "ReLu", "gelu": "GELU", "silu": "SiLu"}
_OPERANDS = {"e4m3": "fp8", "e5m2": "fp8", "s8": "s8", "tf32": "tf32"}  # the others: half
_USUAL_COLUMNS = (8, 16, 32, 64, 96, 128, 192, 256)  # cute/arch/mma_sm90.hpp
# The driver's type of a tensor map, and bytes of an element: TMA rounds a TF32 from F32.
_MAPS = {
    "bf16": "BFLOAT16, 2", "f16": "FLOAT16, 2", "f32": "FLOAT32, 4", "tf32": "TFLOAT32, 4",
    "e4m3": "UINT8, 1", "e5m2": "UINT8, 1", "s8": "UINT8, 1", "s32": "INT32, 4",
}  # fmt: skip


class Mainloop(Protocol):
    """The parts of a kernel's source and row that depend on the mainloop."""

    template: ClassVar[str]
    compiler: ClassVar[str] = ""  # empty for nvcc
    fixed_cluster: ClassVar[bool] = False  # whether the cluster is compiled in

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


class Stream(Mainloop):
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


class Lean(Mainloop):
    template = "lean"

    def words(self, config: GemmConfig) -> str:
        forms = flag(", plain forms", config.plain_forms) + flag(", split form", config.split_form)
        return f"{config.schedule}, lean mainloop, clusters and splits of k at run time{forms}"

    def threads(self, config: GemmConfig) -> int:
        return 128 * (warpgroups(config).consumers + 1)

    def facts(self, config: GemmConfig) -> LeanFacts:
        _, rows, columns = warpgroups(config)
        width = lean_tiles.shared_subtile_columns(columns, config.swap_ab, bits(config.d))
        if config.activation in GATED and not config.swap_ab:  # sm90/gated_epilogue.hpp
            width = 32 if columns % 32 == 0 else 16
            from_registers = lean_tiles.subtile_columns(columns, swapped=False)
            if lean_tiles.shared_subtile_columns(columns, swapped=False, bits=16) == from_registers:
                width = 2 * lean_tiles.subtile_columns(columns // 2, swapped=False)
        subtiles = rows * (columns // width)
        return {"cluster_multiple": (1, 1), "splits": epilogue_through_smem(config), "subtiles": subtiles}

    def variables(self, config: GemmConfig) -> dict[str, Any]:
        gated, forms = config.activation in GATED, config.plain_forms
        header = f"{flag('gated_', gated)}plain_form" if forms else "gated" if gated else "lean"
        macro = flag("_WITH_FORMS", forms)
        if config.split_form:
            header, macro = "split_form", "_WITH_SPLIT_FORM"
        common = _boxed_variables(config) | {"header": header, "with_forms": macro}
        if gated:  # gated.cu.j2: both operands have k contiguous
            own = ("mn_major_a", "mn_major_b", "activation")
            return {name: value for name, value in common.items() if name not in own}
        return common


def _boxed_variables(config: GemmConfig) -> dict[str, Any]:
    """A template's variables, for kernels whose stages are boxes of 128 bytes of k."""
    promotes = bits(config.a) == 8 and not config.fast_accum
    return lean_tiles.variables(config) | {
        "stages": memory(config).stages,
        "warpgroups": config.schedule.capitalize(),
        "sum": "PromotedSum" if promotes else "PlainSum",
        "activation": config.activation.capitalize(),
    }


class Mma(Lean):
    template = "mma"

    def words(self, config: GemmConfig) -> str:
        return f"{config.schedule}, mma.sync, splits of k at run time"

    def facts(self, config: GemmConfig) -> LeanFacts:
        return {"splits": True}

    def variables(self, config: GemmConfig) -> dict[str, Any]:
        return _boxed_variables(config)

    def instruction(self, config: GemmConfig) -> str:
        """FP8 is multiplied as FP16 on sm_90a, whose mma.sync has no instruction for it."""
        fp8 = bits(config.a) == 8 and has_tensor_core(config.arch, MMA_SYNC)
        return MMA_SYNC.opcodes["fp8" if fp8 else "half"].name


class InCuteDsl(Mainloop):
    """Programs in CuTe-DSL."""

    compiler = "cute_dsl"
    fixed_cluster = True

    def variables(self, config: GemmConfig) -> dict[str, Any]:
        cluster = config.cluster
        assert cluster != "dynamic"  # by the rules cute_dsl_cluster and tcgen05_cluster
        return {
            "tile_m": config.tile.m,
            "tile_n": config.tile.n,
            "tile_k": config.tile.k,
            "cluster_m": cluster.m,
            "cluster_n": cluster.n,
            "stages": memory(config).stages,
            "threads": self.threads(config),
        }


class CuteDsl(InCuteDsl):
    template = "cute_dsl"

    def words(self, config: GemmConfig) -> str:
        return f"{config.schedule}, data-parallel tiles"

    def variables(self, config: GemmConfig) -> dict[str, Any]:
        return super().variables(config) | {
            "element": {"bf16": "BFloat16", "f16": "Float16"}[config.a],
            "addend": f"TILEWRIGHT_ADDEND_{config.d.upper()}",
            "subtile": SUBTILE_COLUMNS,
            "buffers": SUBTILE_BUFFERS,
        }


class Tcgen05(InCuteDsl):
    template = "tcgen05"

    def words(self, config: GemmConfig) -> str:
        splits = ", splits of k at run time" if shares_k(config) else ""
        return f"MMAs on {sms(config)} SM{flag('s', sms(config) > 1)}, data-parallel tiles{splits}"

    def facts(self, config: GemmConfig) -> LeanFacts:
        return {"splits": shares_k(config)}

    def threads(self, config: GemmConfig) -> int:
        """Four warps of the epilogue, one that multiplies, one that loads."""
        return 192

    def instruction(self, config: GemmConfig) -> str:
        return TCGEN05.opcodes[_OPERANDS.get(config.a, "half")].name

    def variables(self, config: GemmConfig) -> dict[str, Any]:
        a, b = kernel_operands(config)
        return super().variables(config) | {
            "element_a": a,
            "element_b": b,
            "element_d": config.d,
            "map_a": _MAPS[a],
            "map_d": _MAPS[config.d],
            "sms": sms(config),
            "subtile": tcgen05_columns(config),
            "buffers": 0 if config.swap_ab else SUBTILE_BUFFERS,
            "swapped": config.swap_ab,
            "swapped_in_python": str(config.swap_ab),
            "splits": shares_k(config),
            "splits_in_python": str(shares_k(config)),
        }


class Cutlass(Mainloop):
    template = "kernel"
    fixed_cluster = True

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


MAINLOOPS = {
    "cutlass": Cutlass(),
    "lean": Lean(),
    "stream": Stream(),
    "mma": Mma(),
    "cute_dsl": CuteDsl(),
    "tcgen05": Tcgen05(),
}


def of(config: GemmConfig) -> Mainloop:
    """A configuration's mainloop."""
    return MAINLOOPS[config.mainloop]
