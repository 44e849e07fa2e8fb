"""Shared memory of block-scaled kernels."""

from __future__ import annotations

from dataclasses import replace

import pytest
from blockscaled_configurations import FAMILY, MX100, SM100, SM120, ULTRA, shape

from tilewright.families.blockscaled_gemm.config import BlockscaledGemmConfig
from tilewright.families.blockscaled_gemm.memory import memory
from tilewright_generator.rules import verdicts

# Stages and bytes as CUTLASS has them: SharedStorageSize of the instantiated kernel.
MEMORY: dict[str, tuple[BlockscaledGemmConfig, tuple[int, int]]] = {
    "tcgen05": (SM100, (7, 218_112)),
    "N 64": (replace(SM100, tile=shape("128x64x256"), swap_ab=True, schedule="1sm"), (7, 219_136)),
    "N 64 with C": (replace(SM100, tile=shape("128x64x256"), schedule="1sm", c="same"), (7, 226_304)),
    "f32 columns": (replace(SM100, tile=shape("128x64x256"), d="f32", swap_ab=True), (8, 230_400)),
    "direct": (replace(SM100, store="direct"), (7, 209_408)),
    "quantised with C": (
        replace(SM100, tile=shape("128x192x256"), schedule="1sm", d="nvfp4", c="same"),
        (3, 192_512),
    ),
    "f32, direct, swapped": (
        replace(MX100, tile=shape("128x256x128"), schedule="2sm", d="f32", store="direct_256", swap_ab=True),
        (6, 214_528),
    ),
    "quantised": (replace(MX100, d="mxfp8", schedule="2sm"), (8, 213_760)),
    "mixed": (replace(MX100, b="mxfp4", schedule="2sm"), (8, 222_208)),
    "ultra": (ULTRA, (8, 230_016)),
    "ultra, N 256": (replace(ULTRA, tile=shape("128x256x768"), schedule="1sm"), (4, 228_352)),
    "sm_120": (SM120, (4, 83_968)),
    "sm_120 with C": (replace(SM120, c="same", swap_ab=True, scheduler="stream_k"), (4, 88_064)),
    "sm_120 f32 with C": (replace(SM120, c="same", d="f32"), (4, 100_352)),
    "sm_120 ping-pong": (replace(SM120, schedule="pingpong", d="mxfp8", c="same"), (4, 88_064)),
    "sm_120 quantised": (replace(SM120, d="nvfp4"), (5, 96_256)),
    "sm_120, CUTLASS 4.5": (replace(SM120, tile=shape("128x32x128"), d="nvfp4", cutlass="4.5"), (7, 90_112)),
}


@pytest.mark.parametrize("name", MEMORY)
def test_shared_memory_is_the_compilers(name: str) -> None:
    config, expected = MEMORY[name]
    assert verdicts(FAMILY, config) == []
    assert memory(config) == expected
    assert expected[1] <= config.hardware.shared_memory.block


def test_given_stages_are_taken() -> None:
    for stages in range(2, 8):
        actual = memory(replace(SM100, stages=stages))
        assert actual.stages == stages
        assert memory(SM100).total - actual.total == (7 - stages) * 28_672
