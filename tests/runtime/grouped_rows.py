"""Rows of a table of scaled and grouped products as the generator writes it, of kernels that run on the
host."""

from __future__ import annotations

from typing import Any

from table_rows import table_row

BITS = {"bf16": 16, "e4m3": 8, "f32": 32, "mxfp4": 4}


def make_grouped_row(name: str, **fields: Any) -> dict[str, Any]:
    made: dict[str, Any] = {
        "arch": "sm_90a", "a": "e4m3", "b": "e4m3", "d": "bf16", "scales": "128x128", "tile": [128, 128, 128],
        "swap_ab": False, "layout": "tn", "promotion": "after", "store_buffers": 2, "pdl": True,
        "stages": "auto", "mainloop": "lean",
    } | fields  # fmt: skip
    alignment = {x: 128 // BITS[made[of]] for x, of in (("a", "a"), ("b", "b"), ("c", "d"), ("d", "d"))}
    facts = {"stages": 4, "smem_bytes": 100000, "threads": 384, "splits": True, "alignment": alignment}
    return table_row(name, made, facts, ["QGMMA"])


HOST_GROUPED_ROWS = [
    make_grouped_row("host_fp8_blocks"),
    make_grouped_row("host_fp8_blocks_f32", d="f32"),
    make_grouped_row("host_fp8_rows", scales="1x128"),
    make_grouped_row("host_fp8_rows_f32", scales="1x128", d="f32"),
    make_grouped_row("host_bf16", a="bf16", b="bf16", scales="none", tile=[128, 128, 64]),
    make_grouped_row("host_bf16_f32", a="bf16", b="bf16", d="f32", scales="none", tile=[128, 128, 64]),
    make_grouped_row("host_bf16_tt", a="bf16", b="bf16", scales="none", tile=[128, 128, 64], layout="tt"),
    make_grouped_row(
        "host_bf16_f32_nt", a="bf16", b="bf16", d="f32", scales="none", tile=[128, 128, 64], layout="nt"
    ),
]

_WORDS = {"arch": "sm_120f", "mainloop": "mma"}
HOST_WORDS_ROWS = [
    make_grouped_row("host_words_32", scales="1x32_ue8m0", **_WORDS),
    make_grouped_row("host_words_32_f32", scales="1x32_ue8m0", d="f32", **_WORDS),
    make_grouped_row("host_fp4", a="mxfp4", b="mxfp4", scales="1x32_ue8m0", **_WORDS),
    make_grouped_row("host_fp4_f32", a="mxfp4", b="mxfp4", d="f32", scales="1x32_ue8m0", **_WORDS),
    make_grouped_row("host_fp8_fp4", b="mxfp4", scales="1x32_ue8m0", **_WORDS),
    make_grouped_row("host_fp4_fp8", a="mxfp4", scales="1x32_ue8m0", **_WORDS),
    make_grouped_row("host_words_128", scales="1x128_ue8m0", **_WORDS),
    make_grouped_row("host_words_128_f32", scales="1x128_ue8m0", d="f32", **_WORDS),
]
