"""Legal configurations of block-scaled kernels, one of each kind."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tilewright.configurations.shapes import Cluster, Tile
from tilewright.families.blockscaled_gemm.config import BlockscaledGemmConfig
from tilewright_generator import families

FAMILY = families.get("blockscaled_gemm")
ONE, DYNAMIC = Cluster(1, 1), "dynamic"


def shape(text: str) -> Tile:
    return Tile(*map(int, text.split("x")))


def config(arch: str, formats: str, tile: str, schedule: str, **fields: Any) -> BlockscaledGemmConfig:
    a, b, d = formats.split()
    if arch in ("sm_100f", "sm_103a", "sm_107a", "sm_110a"):
        fields.setdefault("cluster", DYNAMIC)
    return BlockscaledGemmConfig(arch, a, b, d, shape(tile), schedule, **fields)  # type: ignore[arg-type]


SM100 = config("sm_100f", "nvfp4 nvfp4 bf16", "128x128x256", "2sm")
MX100 = config("sm_100f", "mxfp8 mxfp8 bf16", "128x128x128", "1sm")
ULTRA = config("sm_103a", "nvfp4 nvfp4 bf16", "128x128x768", "2sm", store="direct_256", pdl=False)
RUBIN = config("sm_107a", "nvfp4 nvfp4 bf16", "128x128x256", "2sm", cutlass="4.8")
SM120 = config("sm_120f", "nvfp4 nvfp4 bf16", "128x128x128", "cooperative")
MX120 = config("sm_120f", "mxfp8 mxfp8 bf16", "128x128x128", "cooperative")
MMA = config(
    "sm_120f",
    "nvfp4 nvfp4 bf16",
    "128x16x256",
    "cooperative",
    mainloop="mma",
    c="same",
    swap_ab=True,
    bias=True,
)
MMA_ACT = replace(MMA, activation="given")
CUTE = config(
    "sm_100f", "nvfp4 nvfp4 bf16", "128x128x256", "1sm", mainloop="tcgen05", c="same", bias=True,
    cluster=Cluster(1, 1),
)  # fmt: skip
CUTE_ACT = replace(CUTE, activation="given")
ULTRA_CUTE = config(
    "sm_103a", "nvfp4 nvfp4 bf16", "128x128x768", "1sm", mainloop="tcgen05", c="same", bias=True,
    cluster=Cluster(1, 1),
)  # fmt: skip
HOPPER = config("sm_90a", "nvfp4 nvfp4 bf16", "64x16x256", "cooperative", swap_ab=True)
