"""The name, summary, table row and template variables of a kernel."""

from __future__ import annotations

from typing import Any

from tilewright.configurations.shared import flag
from tilewright.configurations.sources import named, spelt, with_launch
from tilewright.families.quantize import rules
from tilewright.families.quantize.config import (
    QuantizeAlignment,
    QuantizeConfig,
    QuantizeFacts,
    block,
    by_thresholds,
    converts_e2m1,
    in_cute_dsl,
)
from tilewright.families.quantize.memory import box, resident, shared_bytes, threads
from tilewright.families.quantize.problem import BLOCK
from tilewright.families.quantize.vocabulary import K_MULTIPLE
from tilewright.formats.types import TYPES, bits

RULES = rules.RULES

_BLOCKWISE = {
    "fp8_1x128": "Fp8",
    "fp8_128x1": "Fp8Column",
    "fp8_128x128": "Fp8Square",
}  # as C++ calls them, and the others:
_FORMATS = {name: "".join(map(str.capitalize, name.split("_"))) for name in BLOCK} | _BLOCKWISE


def template(config: QuantizeConfig) -> str:
    """The template that a kernel is rendered from."""
    return f"quantize/{'cute_dsl.py' if in_cute_dsl(config) else 'kernel.cu'}.j2"


def host(config: QuantizeConfig) -> str:
    """The header with a unit's host code, which its module's table includes: that of CuTe-DSL's kernels."""
    return flag("tilewright/quantize/cute_dsl_host.hpp", in_cute_dsl(config))


def kernel_name(config: QuantizeConfig) -> str:
    """See `named`."""
    return named(
        config.direction, config.arch, config.format, config.x,
        config.fusion.replace("none", "").replace("_", ""),
        flag(f"4over6{config.four_over_six}", config.four_over_six != "none"),
        flag(config.variant, config.direction == "quantize"),
        flag(f"{config.threads}threads", config.threads != 256),
        flag(f"{config.stages}stages", config.variant == "tma"), flag("fast", config.arithmetic == "fast"),
        flag("cute_dsl", in_cute_dsl(config)), flag("nopdl", not config.pdl),
    )  # fmt: skip


def formula(config: QuantizeConfig) -> str:
    """The formula that the kernel computes, in the terms of its caller."""
    rows, columns = block(config.format)
    scale = f"scales[{'m' if rows == 1 else f'm/{rows}'},k/{columns}]"
    if config.direction == "dequantize":
        return f"x[m,k] = data[m,k] * {scale}{' / global scale' if config.format == 'nvfp4' else ''}"
    source = {
        "none": "x[m,k]",
        "silu_mul": "silu(x[m,:k]) * x[m,k:]",
        "rmsnorm": "x[m,k] * rsqrt(mean(x[m,:]^2) + eps) * weight[k]",
    }[config.fusion]
    return f"data[m,k], {scale} = {config.format}({source})"


def work_text(config: QuantizeConfig) -> str:
    """How the work is done, in words."""
    if config.variant == "tma" and in_cute_dsl(config):
        rows, columns = box(config)
        stages = f"{config.stages} stages of {rows}x{columns} filled by a warp of TMA"
        words = [f"{stages}, {config.threads} threads quantise"]
    elif config.variant == "tma":
        words = [f"{config.stages} stages filled by a warp of bulk copies, {config.threads} threads quantise"]
    else:
        words = [f"{config.threads} threads, {32 if loads_32_bytes(config) else 16} bytes at a time"]
    if config.direction == "quantize":
        words.append(f"{config.arithmetic} arithmetic")
    if config.four_over_six != "none":
        words.append(f"the better of two scales by {config.four_over_six}")
    return ", ".join(words)


def summary(config: QuantizeConfig) -> str:
    """One line for lists."""
    fusion = f"{config.fusion}, " if config.fusion != "none" else ""
    ends = (config.x, config.format) if config.direction == "quantize" else (config.format, config.x)
    return f"{fusion}{ends[0]} -> {ends[1]}, {config.variant}, {work_text(config)}"


def alignment(config: QuantizeConfig) -> QuantizeAlignment:
    """The number of elements that divides the address, row stride and group stride of x and of the data: a
    thread moves this many at once, 16 bytes of x."""
    return {"x": 128 // bits(config.x), "data": 8 if config.x == "f32" else 16}


def facts(config: QuantizeConfig) -> QuantizeFacts:
    """Derived numbers that the runtime needs; alignments are in elements."""
    return {
        "smem_bytes": shared_bytes(config),
        "threads": threads(config),
        "block": block(config.format),
        "k_multiple": K_MULTIPLE,
        "alignment": alignment(config),
    }


def build(config: QuantizeConfig) -> dict[str, Any]:
    """Compiler settings of the kernel, and the instructions that its machine code must hold."""
    compiler = {"compiler": config.compiler} if in_cute_dsl(config) else {}
    return {"arch": config.arch, "defines": [], "instructions": _instructions(config), **compiler}


def _instructions(config: QuantizeConfig) -> list[str]:
    """Patterns for opcodes, from their start: the conversion, and the bulk copy or the load of 32 bytes."""
    if config.direction == "dequantize":
        return []
    converts = bits(config.format) == 8 or converts_e2m1(config)
    conversions = [rf"F2FP\.SATFINITE\.{_data_type(config)}"] if converts else []
    copies = "UTMALDG" if in_cute_dsl(config) else "UBLKCP"
    loads = [copies] if config.variant == "tma" else [r"LDG\.E\.ENL2\.256"] if loads_32_bytes(config) else []
    return [*conversions, *loads]


def loads_32_bytes(config: QuantizeConfig) -> bool:
    """Whether a thread loads its 32 bytes of a row with one instruction, as GPUs starting at sm_100 can."""
    return (
        config.variant == "vector"
        and config.direction == "quantize"
        and config.fusion != "rmsnorm"
        and config.x != "e4m3"  # 16 bytes
        and block(config.format)[0] == 1
        and converts_e2m1(config)
        and not in_cute_dsl(config)
    )


def variables(config: QuantizeConfig) -> dict[str, str]:
    """The template's variables, all of them text."""
    scale = "FP32 or packed UE8M0" if config.format in _BLOCKWISE else TYPES[config.format].scale.upper()
    rows, columns = block(config.format)
    own = _cute_dsl(config) if in_cute_dsl(config) else _in_cpp(config)
    return spelt(
        {
            **own,
            "formula": formula(config),
            "types": f"x {config.x}, data {_data_type(config)}, scales {scale}, one for {rows}x{columns}",
            "work": with_launch(work_text(config), config),
            "threads": threads(config),
            "shared_memory": shared_bytes(config),
            "pdl": config.pdl,
        }
    )


def _cute_dsl(config: QuantizeConfig) -> dict[str, Any]:
    """Variables of the template of CuTe-DSL: of the host's unit, then the settings of the program."""
    rows, columns = box(config)
    by_tma = config.variant == "tma"
    return {
        "x_bits": bits(config.x),
        "box_rows": rows,
        "box_columns": columns,
        "by_tma": by_tma,
        "x": config.x,
        "variant": config.variant,
        "consumers": config.threads,
        "stages": config.stages,
        "converts": str(converts_e2m1(config)),
        "blocks": resident(config),
        "pdl_in_python": str(config.pdl),
    }


def _data_type(config: QuantizeConfig) -> str:
    return {4: "E2M1", 8: "E5M2" if config.format == "mxfp8_e5m2" else "E4M3"}[bits(config.format)]


def _in_cpp(config: QuantizeConfig) -> dict[str, Any]:
    """Variables of the template of C++."""
    return {"kernel": _kernel(config), "header": _header(config), "wide_loads": loads_32_bytes(config)}


def _header(config: QuantizeConfig) -> str:
    return "kernel" if config.four_over_six == "none" else "four_over_six"


def _kernel(config: QuantizeConfig) -> str:
    """The kernel's type. Its parameters are the configuration's fields."""
    prefix = "tilewright::quantize::"
    exact = "true" if config.arithmetic == "exact" else "false"
    x = f"{prefix}{config.x.capitalize()}"
    ends = [str(config.threads), "kPdl"]
    if config.direction == "dequantize":
        return _type("DequantizeKernel", f"{prefix}Stored{_FORMATS[config.format]}", x, *ends)
    if config.format in ("fp8_128x1", "fp8_128x128"):
        return _type("ColumnKernel" if config.format == "fp8_128x1" else "SquareKernel", x, *ends)
    # A fused silu's arithmetic is its source's; NVFP4's that of its scales.
    kind = f"Nvfp4<{exact}>" if config.format == "nvfp4" else _FORMATS[config.format]
    if config.four_over_six != "none":
        kind = f"FourOverSix<{prefix}BlockError::k{config.four_over_six.capitalize()}>"
    format = f"{prefix}{'Nvfp4OfE4m3' if by_thresholds(config) else kind}"
    if config.fusion == "rmsnorm":
        return _type("NormKernel", format, x, *ends)
    if config.variant == "tma":
        return _type("TmaKernel", format, x, str(config.threads), str(config.stages), "kPdl")
    wide = "Wide" if loads_32_bytes(config) else ""
    source = f"SiluMul<{x}, {exact}>" if config.fusion == "silu_mul" else f"Plain<{x}>"
    return _type("VectorKernel", format, x, f"{prefix}{wide}{source}", *ends)


def _type(name: str, *parameters: str) -> str:
    return f"{name}<{', '.join(parameters)}>"
