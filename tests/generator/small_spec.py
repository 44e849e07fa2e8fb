"""A spec of the tiny family, of which a rule rejects some and a reason excludes one."""

from __future__ import annotations

FAST = "tiny_bf16_64x64x64_1x1_fast"
SPEC = """\
family: tiny
arch: sm_90a
defaults:
  quick: {fast: true}
configs:
  - use: quick
    dtype: [bf16, e4m3]
    tile: [64x64x64, 256x64x64, 256x512x64]
    exclude:
      - {dtype: e4m3, tile: 64x64x64, reason: nobody asks for it}
"""
