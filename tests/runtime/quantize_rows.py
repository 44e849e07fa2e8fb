"""Rows of a table of quantising kernels as the generator writes them, and those that run on the host."""

from __future__ import annotations

from typing import Any

from table_rows import table_row

from tilewright.formats.types import TYPES, bits


def make_quantize_row(name: str, **fields: Any) -> dict[str, Any]:
    made: dict[str, Any] = {
        "arch": "sm_90a", "format": "nvfp4", "x": "bf16", "direction": "quantize", "variant": "vector",
        "arithmetic": "exact", "fusion": "none", "threads": 256, "stages": 1, "pdl": True,
        "compiler": "nvcc",
    } | fields  # fmt: skip
    count = 8 if made["x"] == "f32" else 16
    stage = made["threads"] // 32 * 4 * 32 * 32
    facts = {
        "smem_bytes": made["stages"] * stage if made["variant"] == "tma" else 1024,
        "threads": made["threads"] + (32 if made["variant"] == "tma" else 0),
        "block": TYPES[made["format"]].block,
        "k_multiple": 16,
        "alignment": {"x": 128 // bits(made["x"]), "data": count},
    }
    return table_row(name, made, facts)


def _back(name: str, format: str, x: str = "bf16") -> dict[str, Any]:
    return make_quantize_row(name, format=format, x=x, direction="dequantize")


HOST_QUANTIZE_ROWS = [
    make_quantize_row("host_to_nvfp4_bf16"),
    make_quantize_row("host_to_nvfp4_bf16_tma", variant="tma", stages=3),
    make_quantize_row("host_to_nvfp4_bf16_fast", arithmetic="fast"),
    make_quantize_row("host_to_nvfp4_f32", x="f32"),
    make_quantize_row("host_to_nvfp4_e4m3", x="e4m3"),
    make_quantize_row("host_to_nvfp4_f16_absent", x="f16"),
    make_quantize_row("host_to_nvfp4_silu", fusion="silu_mul"),
    make_quantize_row("host_to_nvfp4_norm", fusion="rmsnorm"),
    make_quantize_row("host_to_mxfp4_bf16", format="mxfp4"),
    make_quantize_row("host_to_mxfp8_bf16", format="mxfp8"),
    make_quantize_row("host_to_mxfp8_f32", format="mxfp8", x="f32"),
    make_quantize_row("host_to_mxfp8_e5m2_bf16", format="mxfp8_e5m2"),
    make_quantize_row("host_to_rows_bf16", format="fp8_1x128"),
    make_quantize_row("host_to_rows_f32", format="fp8_1x128", x="f32"),
    make_quantize_row("host_to_rows_silu", format="fp8_1x128", fusion="silu_mul"),
    make_quantize_row("host_to_columns_bf16", format="fp8_128x1"),
    make_quantize_row("host_to_squares_bf16", format="fp8_128x128"),
    _back("host_back_nvfp4_bf16", "nvfp4"),
    _back("host_back_nvfp4_f32", "nvfp4", "f32"),
    _back("host_back_mxfp4_bf16", "mxfp4"),
    _back("host_back_mxfp8_bf16", "mxfp8"),
    _back("host_back_mxfp8_e5m2_bf16", "mxfp8_e5m2"),
    _back("host_back_rows_bf16", "fp8_1x128"),
    _back("host_back_columns_bf16", "fp8_128x1"),
    _back("host_back_squares_bf16", "fp8_128x128"),
]
