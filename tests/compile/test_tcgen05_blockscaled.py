"""Block-scaled kernels of tcgen05 in CuTe-DSL compute the product."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from cute_dsl_ptx import ptx_of
from tcgen05_blockscaled import LARGEST, Case, compile_and_run, run, table_of

from tilewright.compile.cute_dsl import installed

pytestmark = [
    pytest.mark.compile,
    pytest.mark.skipif(bool(installed.lacking()), reason=f"a kernel here {installed.lacking()}"),
]

PREFIX, ULTRA = "blockscaled_gemm_sm100f_", "blockscaled_gemm_sm103_"
THOR = "blockscaled_gemm_sm110_"
NARROW = f"{PREFIX}nvfp4_nvfp4_bf16_128x128x256_1x1_tcgen05_1sm"
CASES = {
    NARROW: Case(200, 136, 608, batch=2, c=True),
    f"{PREFIX}nvfp4_nvfp4_bf16_128x256x256_1x1_tcgen05_1sm": Case(140, 520, 320, c=True, down=0),
    f"{PREFIX}nvfp4_nvfp4_f16_128x256x256_2x1_tcgen05_2sm": Case(300, 520, 320),
    f"{PREFIX}nvfp4_nvfp4_bf16_128x128x256_1x1_tcgen05_1sm_swap": Case(100, 203, 320, c=True),
    f"{PREFIX}mxfp4_mxfp4_bf16_128x128x256_2x1_tcgen05_2sm": Case(280, 136, 608),
    f"{PREFIX}mxfp8_mxfp8_bf16_128x128x128_1x1_tcgen05_1sm": Case(136, 136, 304, c=True),
    f"{PREFIX}nvfp4_nvfp4_bf16_128x64x256_1x1_tcgen05_1sm": Case(136, 328, 320),
    f"{PREFIX}nvfp4_nvfp4_bf16_128x64x256_2x1_tcgen05_2sm": Case(280, 200, 320),
    f"{PREFIX}mxfp8_mxfp8_bf16_128x64x128_1x1_tcgen05_1sm_swap": Case(200, 130, 304),
    f"{PREFIX}nvfp4_nvfp4_bf16_128x8x256_1x1_tcgen05_1sm_swap": Case(8, 331, 608, c=True),
    f"{PREFIX}mxfp4_mxfp4_f16_128x16x256_1x1_tcgen05_1sm_swap": Case(13, 140, 320, batch=2, bias=True),
    f"{PREFIX}mxfp8_mxfp8_bf16_128x32x128_1x1_tcgen05_1sm_swap": Case(27, 203, 304),
    f"{PREFIX}nvfp4_nvfp4_bf16_128x128x256_2x1_tcgen05_2sm_direct": Case(280, 264, 608, c=True),
    f"{PREFIX}nvfp4_nvfp4_bf16_128x128x256_2x1_tcgen05_2sm_direct256": Case(280, 272, 320, c=True),
    f"{PREFIX}nvfp4_nvfp4_bf16_128x256x256_2x1_tcgen05_2sm_noprefetch": Case(136, 136, 320),
    f"{ULTRA}nvfp4_nvfp4_bf16_128x128x768_1x1_tcgen05_1sm": Case(200, 136, 1824, c=True),
    f"{ULTRA}nvfp4_nvfp4_bf16_128x256x768_1x1_tcgen05_1sm_direct": Case(140, 520, 800, down=0),
    f"{ULTRA}nvfp4_nvfp4_f16_128x256x768_2x1_tcgen05_2sm": Case(300, 520, 1600),
    f"{ULTRA}nvfp4_nvfp4_f32_128x128x768_2x1_tcgen05_2sm_direct": Case(136, 140, 3104),
    f"{ULTRA}nvfp4_nvfp4_bf16_128x128x768_1x1_tcgen05_1sm_swap": Case(100, 203, 864, c=True),
    f"{ULTRA}mxfp4_mxfp4_bf16_128x256x768_2x1_tcgen05_2sm": Case(280, 264, 1632),
    f"{THOR}nvfp4_nvfp4_bf16_128x256x256_2x1_tcgen05_2sm": Case(280, 264, 320),
    f"{THOR}mxfp8_mxfp8_f16_128x16x128_1x1_tcgen05_1sm_swap": Case(13, 200, 304, bias=True),
    # Clusters of several MMAs.
    f"{PREFIX}nvfp4_nvfp4_bf16_128x128x256_1x2_tcgen05_1sm": Case(136, 264, 320),
    f"{PREFIX}nvfp4_nvfp4_bf16_128x128x256_2x2_tcgen05_2sm": Case(280, 264, 320),
    f"{ULTRA}nvfp4_nvfp4_bf16_128x128x768_1x2_tcgen05_1sm": Case(136, 264, 800),
    f"{ULTRA}nvfp4_nvfp4_bf16_128x128x768_4x1_tcgen05_2sm": Case(520, 136, 800),
}


SPLIT = {
    f"{PREFIX}nvfp4_nvfp4_bf16_128x128x256_1x1_tcgen05_1sm_swap": Case(140, 203, 1120, c=True, splits=4),
    f"{PREFIX}mxfp8_mxfp8_bf16_128x64x128_1x1_tcgen05_1sm_swap": Case(40, 200, 1136, batch=2, splits=8),
    f"{PREFIX}mxfp8_mxfp8_f16_128x8x128_1x1_tcgen05_1sm_swap": Case(5, 200, 1136, splits=4),
    f"{ULTRA}nvfp4_nvfp4_bf16_128x128x768_1x1_tcgen05_1sm_swap": Case(100, 203, 2400, splits=2),
}


FINISHED = {
    f"{PREFIX}nvfp4_nvfp4_bf16_128x128x256_2x1_tcgen05_2sm_act": Case(
        280, 136, 320, c=True, bias=True, activation="gelu"
    ),
    f"{PREFIX}nvfp4_nvfp4_f16_128x128x256_1x1_tcgen05_1sm_swap_act": Case(
        100, 203, 320, bias=True, activation="silu"
    ),
    f"{PREFIX}mxfp8_mxfp8_bf16_128x256x128_2x1_tcgen05_2sm_act": Case(140, 264, 304, activation="relu"),
    f"{PREFIX}mxfp8_mxfp8_bf16_128x64x128_1x1_tcgen05_1sm_swap_act": Case(
        40, 200, 1136, batch=2, splits=4, bias=True, activation="relu"
    ),
    f"{PREFIX}mxfp4_mxfp4_bf16_128x128x256_2x1_tcgen05_2sm_act": Case(136, 136, 320, bias=True),
    f"{PREFIX}nvfp4_nvfp4_f32_128x128x256_1x1_tcgen05_1sm": Case(136, 140, 320, bias=True),
    f"{PREFIX}nvfp4_nvfp4_bf16_128x128x256_2x1_tcgen05_2sm_direct256": Case(136, 144, 320, c=True, bias=True),
    f"{ULTRA}nvfp4_nvfp4_bf16_128x128x768_1x1_tcgen05_1sm_swap_act": Case(
        100, 203, 864, c=True, bias=True, activation="gelu"
    ),
    f"{ULTRA}nvfp4_nvfp4_f16_128x256x768_2x1_tcgen05_2sm_act": Case(
        136, 264, 800, bias=True, activation="silu"
    ),
}


ROUNDED = {
    f"{PREFIX}nvfp4_nvfp4_e4m3_128x128x256_2x1_tcgen05_2sm": Case(280, 144, 608, c=True, bias=True),
    f"{PREFIX}nvfp4_nvfp4_e4m3_128x256x256_2x1_tcgen05_2sm": Case(136, 528, 320),
    f"{PREFIX}nvfp4_nvfp4_e5m2_128x128x256_2x1_tcgen05_2sm": Case(136, 144, 320),
    f"{PREFIX}mxfp8_mxfp8_e4m3_128x256x128_2x1_tcgen05_2sm": Case(280, 272, 304, batch=2),
    f"{PREFIX}mxfp4_mxfp4_e4m3_128x64x256_1x1_tcgen05_1sm_swap": Case(40, 203, 320, bias=True),
    f"{PREFIX}nvfp4_nvfp4_e5m2_128x64x256_1x1_tcgen05_1sm_swap": Case(100, 203, 608, c=True),
    f"{ULTRA}nvfp4_nvfp4_e4m3_128x256x768_2x1_tcgen05_2sm": Case(136, 272, 800, c=True),
    f"{ULTRA}nvfp4_nvfp4_e4m3_128x128x768_1x1_tcgen05_1sm_swap": Case(40, 203, 864),
}


@pytest.mark.parametrize("saturates", [False, True], ids=["within", "saturates"])
@pytest.mark.parametrize("name", ROUNDED)
def test_a_result_of_fp8(name: str, saturates: bool) -> None:
    """Within the range of the type, and beyond it."""
    case, largest = ROUNDED[name], LARGEST[table_of(name)[name].config["d"]]
    alpha = (largest / 2 if saturates else 1 / 8) / math.sqrt(case.k)
    compile_and_run(name, replace(case, alpha=alpha, saturates=saturates))


@pytest.mark.parametrize("name", FINISHED)
def test_a_bias_and_an_activation(name: str) -> None:
    compile_and_run(name, FINISHED[name])


@pytest.mark.parametrize("name", SPLIT)
def test_thread_blocks_share_k(name: str) -> None:
    """Ranges of k of unequal lengths; a cluster computes one tile after another."""
    compile_and_run(name, SPLIT[name])


@pytest.mark.parametrize("name", CASES)
def test_a_kernel_computes_the_product(name: str) -> None:
    compile_and_run(name, CASES[name])


def test_scale_factors_are_copied_before_the_mmas_of_their_stage() -> None:
    """Without one of the copies MMAs read what tensor memory held."""
    table = table_of(NARROW)
    record = table[NARROW]
    program = ptx_of(table, record)
    at = program.rindex("tcgen05.cp.")
    with pytest.raises(AssertionError):
        run(
            program[:at] + program[program.index(";", at) + 1 :],
            record,
            Case(128, 128, 512),
            late=True,
        )
