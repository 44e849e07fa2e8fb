"""Rows of a table of `mixed_gemm` kernels as the generator writes them, and those that run on the host."""

from __future__ import annotations

from typing import Any

from table_rows import table_row


def make_mixed_row(name: str, **fields: Any) -> dict[str, Any]:
    config: dict[str, Any] = {
        "arch": "sm_90a", "a": "bf16", "weight_format": "int4_g128", "tile": [128, 16, 128], "k_groups": 1,
        "stages": "auto", "pdl": True,
    } | fields  # fmt: skip
    facts = {
        "stages": 8, "smem_bytes": 200000, "threads": 384, "splits": True,
        "alignment": {"a": 8, "b": 1, "c": 1, "d": 1},
    }  # fmt: skip
    return table_row(name, config, facts)


def make_balanced_row(name: str, **fields: Any) -> dict[str, Any]:
    """A row of a kernel whose thread blocks have equal work, and whose D TMA stores."""
    row = make_mixed_row(name, mainloop="balanced", **fields)
    return row | {"facts": row["facts"] | {"alignment": row["facts"]["alignment"] | {"d": 8}}}


HOST_MIXED_ROWS = [
    make_mixed_row("host_mixed_int4"),
    make_mixed_row("host_mixed_int4_f32", d="f32"),
    make_mixed_row("host_mixed_int4_zp", weight_format="int4_zp_g128"),
    make_mixed_row("host_mixed_int4_f16", a="f16", weight_format="int4_zp_g32"),
    make_mixed_row("host_mixed_mxfp4", weight_format="mxfp4"),
    make_mixed_row("host_mixed_nvfp4", weight_format="nvfp4"),
    make_mixed_row("host_mixed_int4_silu_mul", activation="silu_mul"),
    make_mixed_row(
        "host_mixed_int4_f16_silu_mul", a="f16", weight_format="int4_zp_g32", activation="silu_mul"
    ),
    make_mixed_row("host_mixed_nvfp4_silu_mul", weight_format="nvfp4", activation="silu_mul"),
    make_mixed_row("host_mixed_int8", weight_format="int8_g128"),
    make_mixed_row("host_mixed_int8_f16", a="f16", weight_format="int8_g128"),
    make_mixed_row("host_mixed_e4m3", weight_format="e4m3_g128"),
    make_mixed_row("host_mixed_e4m3_f16", a="f16", weight_format="e4m3_g128"),
    make_balanced_row("host_mixed_int4_balanced"),
]


def make_fp8_row(name: str, **fields: Any) -> dict[str, Any]:
    config: dict[str, Any] = {
        "arch": "sm_90a", "d": "bf16", "weight_format": "int4_g128", "tile": [128, 16, 128], "a": "e4m3",
        "fast_accum": False, "stages": "auto", "pdl": True,
    } | fields  # fmt: skip
    row = make_mixed_row(name)
    return table_row(name, config, row["facts"] | {"alignment": {"a": 16, "b": 1, "c": 1, "d": 1}})


HOST_FP8_ROWS = [
    make_fp8_row("host_fp8_int4"),
    make_fp8_row("host_fp8_int4_zp", weight_format="int4_zp_g128"),
    make_fp8_row("host_fp8_int4_f16", d="f16", weight_format="int4_zp_g32"),
    make_fp8_row("host_fp8_mxfp4", weight_format="mxfp4"),
    make_fp8_row("host_fp8_mxfp4_fast", weight_format="mxfp4", fast_accum=True),
]


def make_experts_row(name: str, **fields: Any) -> dict[str, Any]:
    row = make_mixed_row(name, **fields)
    facts = row["facts"] | {"splits": False, "alignment": {"a": 8, "b": 1, "c": 1, "d": 8}}
    return row | {"facts": facts}


HOST_EXPERTS_ROWS = [
    make_experts_row("host_experts_int4"),
    make_experts_row("host_experts_int4_f16", a="f16", weight_format="int4_zp_g128"),
    make_experts_row("host_experts_mxfp4", weight_format="mxfp4"),
    make_experts_row("host_experts_nvfp4", weight_format="nvfp4"),
    make_experts_row("host_experts_e4m3", weight_format="e4m3_g128"),
    make_experts_row("host_experts_int4_silu_mul", activation="silu_mul"),
    make_experts_row(
        "host_experts_int4_f16_silu_mul", a="f16", weight_format="int4_zp_g128", activation="silu_mul"
    ),
    make_experts_row("host_experts_nvfp4_silu_mul", weight_format="nvfp4", activation="silu_mul"),
]


def make_fp8_experts_row(name: str, **fields: Any) -> dict[str, Any]:
    row = make_fp8_row(name, **fields)
    facts = row["facts"] | {"splits": False, "alignment": {"a": 16, "b": 1, "c": 1, "d": 8}}
    return row | {"facts": facts}


HOST_FP8_EXPERTS_ROWS = [
    make_fp8_experts_row("host_fp8_experts_int4"),
    make_fp8_experts_row("host_fp8_experts_int4_f16", d="f16", weight_format="int4_zp_g128"),
    make_fp8_experts_row("host_fp8_experts_mxfp4", weight_format="mxfp4"),
    make_fp8_experts_row("host_fp8_experts_mxfp4_fast", weight_format="mxfp4", fast_accum=True),
]
