"""What the sources of `blockscaled_gemm` kernels with our mainloop of tcgen05 say
(templates/blockscaled_gemm/tcgen05.py.j2)."""

from __future__ import annotations

from typing import Any

from tilewright.configurations.sources import kernel_operands
from tilewright.families.blockscaled_gemm.config import BlockscaledGemmConfig
from tilewright.families.blockscaled_gemm.problem import BLOCK
from tilewright.families.blockscaled_gemm.tcgen05_memory import (
    shares_k,
    sms,
    stage_depth,
    subtile_columns,
    tma_buffers,
)
from tilewright.formats.types import bits

THREADS = 192  # four warps of the epilogue, one that multiplies, one that loads
# What CuTe-DSL calls the elements of A and B, and TMA those of D.
_CUTE_TYPES = {"nvfp4": "e2m1", "mxfp4": "e2m1", "mxfp8": "e4m3", "mxfp8_e5m2": "e5m2"}
STORE_BYTES = {"tma": 16, "direct": 16, "direct_256": 32}  # that a thread stores at a time
_MAPS = {
    "bf16": "BFLOAT16, 2", "f16": "FLOAT16, 2", "f32": "FLOAT32, 4", "e4m3": "UINT8, 1", "e5m2": "UINT8, 1",
}  # fmt: skip


def variables(config: BlockscaledGemmConfig) -> dict[str, Any]:
    """The variables of the template that other kernels do not have."""
    a, b = (_CUTE_TYPES[dtype] for dtype in kernel_operands(config))
    cluster = config.cluster
    assert cluster != "dynamic"  # by the rule cute_dsl_cluster
    return {
        "element_a": a,
        "element_b": b,
        "element_d": config.d,
        "bits": bits(config.a),
        "map_d": _MAPS[config.d],
        "tile_m": config.tile.m,
        "tile_n": config.tile.n,
        "tile_k": stage_depth(config),
        "k_stages": config.tile.k // stage_depth(config),
        "program": "tcgen05_ultra_program" if config.ultra else "tcgen05_program",
        "cluster_m": cluster.m,
        "cluster_n": cluster.n,
        "sms": sms(config),
        "subtile": subtile_columns(config),
        "buffers": tma_buffers(config),
        "by_tma": tma_buffers(config) > 0,
        "store_bytes": STORE_BYTES[config.store],
        "threads": THREADS,
        "block": BLOCK[config.a],
        "prefetch_in_python": str(config.prefetch == "tma"),
        "swapped_in_python": str(config.swap_ab),
        "splits": shares_k(config),
        "splits_in_python": str(shares_k(config)),
        "activates": config.activation == "given",
        "activates_in_python": str(config.activation == "given"),
    }
