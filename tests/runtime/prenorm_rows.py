"""Rows of a table of `hc_prenorm` kernels as the generator writes them, and those that run on the host."""

from __future__ import annotations

from typing import Any

from table_rows import table_row


def make_prenorm_row(name: str, **fields: Any) -> dict[str, Any]:
    made: dict[str, Any] = {
        "arch": "sm_90a", "tile": [128, 24, 64], "mma": "wgmma", "warp_rows": 16, "stages": "auto",
        "pdl": True,
    } | fields  # fmt: skip
    return table_row(name, made, {"stages": 8, "smem_bytes": 200000, "threads": 160})


HOST_PRENORM_ROWS = [
    make_prenorm_row("host_prenorm_24"),
    make_prenorm_row("host_prenorm_128", tile=[64, 128, 64]),
]
