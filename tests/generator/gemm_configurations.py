"""Legal configurations of `gemm`, one of each kind."""

from __future__ import annotations

from dataclasses import replace

from tilewright.configurations.shapes import Cluster, Tile
from tilewright.families.gemm.config import GemmConfig
from tilewright_generator import families

FAMILY = families.get("gemm")


def shape(text: str) -> Tile:
    return Tile(*map(int, text.split("x")))


BF16 = GemmConfig("sm_90a", "bf16", "bf16", "bf16", shape("128x128x64"))
PINGPONG = replace(BF16, tile=shape("64x128x64"), schedule="pingpong")
FP8 = replace(BF16, a="e4m3", b="e4m3", tile=shape("128x128x128"))
TF32 = replace(BF16, a="tf32", b="tf32", d="f32", tile=shape("128x128x32"))
E5M2 = replace(FP8, a="e5m2")
LEAN = replace(BF16, mainloop="lean", cluster="dynamic", bias=True)
LEAN_TURNS = replace(LEAN, schedule="pingpong")
LEAN_FP8 = replace(LEAN, a="e4m3", b="e4m3", tile=shape("128x128x128"))
LEAN_FP8_OUT = replace(LEAN_FP8, d="e4m3", fast_accum=True)
STREAM = replace(BF16, mainloop="stream", tile=shape("16x8x128"), swap_ab=True, bias=True)
MMA = replace(BF16, arch="sm_120f", mainloop="mma", bias=True)
MMA_FP8_OUT = replace(MMA, a="e4m3", b="e4m3", d="e4m3", tile=shape("128x64x128"))
CUTE_DSL = replace(BF16, mainloop="cute_dsl")
TCGEN05 = replace(BF16, arch="sm_100f", mainloop="tcgen05", schedule="1sm", bias=True, activation="given")
TCGEN05_2SM = replace(TCGEN05, schedule="2sm", cluster=Cluster(2, 1), tile=shape("128x256x64"))
FEW_ROWS = replace(PINGPONG, tile=shape("64x8x64"), swap_ab=True)
S8 = replace(BF16, a="s8", b="s8", d="s32", acc="s32", tile=shape("128x128x128"))
