"""Rules, shared memory and names of `grouped_gemm` kernels."""

from __future__ import annotations

from dataclasses import asdict, replace

import pytest

from tilewright.configurations import rows
from tilewright.configurations.shapes import Tile
from tilewright.configurations.shared import HOPPER_SHARED_MEMORY
from tilewright.families.grouped_gemm.config import GroupedGemmConfig, own_scales
from tilewright.families.grouped_gemm.kernel import kernel_around, variables
from tilewright.families.grouped_gemm.memory import blocks_of, buffers, memory
from tilewright_generator import families

FAMILY = families.get("grouped_gemm")
FP8 = GroupedGemmConfig(
    arch="sm_90a", a="e4m3", b="e4m3", d="bf16", scales="128x128", tile=Tile(128, 128, 128)
)
MMA = replace(FP8, arch="sm_120f", mainloop="mma", tile=Tile(128, 96, 128))
FP4 = replace(MMA, a="mxfp4", b="mxfp4", scales="1x32_ue8m0", tile=Tile(128, 96, 256))
MIXED = replace(FP4, a="e4m3", tile=Tile(128, 128, 128))
NARROW = replace(MMA, scales="1x32_ue8m0", tile=Tile(128, 128, 64), store_buffers=1)
TCGEN05 = replace(FP8, arch="sm_100f", mainloop="tcgen05", schedule="2sm", scales="1x32_ue8m0", pdl=False)
BF16 = replace(FP8, a="bf16", b="bf16", scales="none", tile=Tile(128, 128, 64))


def reasons(config: GroupedGemmConfig) -> dict[str, str]:
    return {rule.name: reason for rule in FAMILY.rules if (reason := rule(config)) is not None}


@pytest.mark.parametrize(
    "config",
    [
        FP8,
        BF16,
        replace(FP8, tile=Tile(128, 192, 128), promotion="in_turn"),
        replace(FP8, tile=Tile(128, 176, 128)),
        replace(FP8, promotion="overlapped"),
        replace(FP8, swap_ab=True, tile=Tile(64, 24, 256)),
        replace(BF16, tile=Tile(128, 256, 64)),
        replace(BF16, layout="tt", swap_ab=True, tile=Tile(64, 24, 128)),
        replace(BF16, layout="nt", d="f32"),
        MMA,
        replace(MMA, arch="sm_90a"),
        replace(MMA, scales="1x32_ue8m0", tile=Tile(128, 128, 128)),
        replace(MMA, swap_ab=True, tile=Tile(64, 8, 256)),
        FP4,
        replace(FP4, tile=Tile(128, 128, 128)),
        replace(FP4, swap_ab=True, tile=Tile(64, 8, 512)),
        replace(FP4, tile=Tile(128, 128, 256), store_buffers=1),
        MIXED,
        replace(MIXED, swap_ab=True, tile=Tile(64, 8, 128)),  # FP4 is the kernel's A
        replace(MIXED, a="mxfp4", b="e4m3"),
        replace(BF16, arch="sm_120f", mainloop="mma", layout="tt", tile=Tile(128, 64, 64)),
        TCGEN05,
        replace(TCGEN05, scales="1x128_ue8m0", swap_ab=True, schedule="1sm", tile=Tile(128, 64, 128)),
        replace(TCGEN05, a="mxfp4", b="mxfp4", tile=Tile(128, 256, 256)),
    ],
    ids=FAMILY.kernel_name,
)
def test_legal(config: GroupedGemmConfig) -> None:
    assert reasons(config) == {}


@pytest.mark.parametrize(
    ("config", "rule", "message"),
    [
        (replace(FP8, b="bf16"), "operand_types", "no kernel here multiplies e4m3 by bf16"),
        (
            replace(TCGEN05, arch="sm_120f"),
            "mainloop_arch",
            "tcgen05 is for sm_100 and sm_110, not sm_120f",
        ),
        (
            replace(TCGEN05, scales="128x128", tile=Tile(128, 64, 128)),
            "tcgen05_tile",
            "scales 128x128 is 128",
        ),
        (replace(TCGEN05, scales="1x128"), "tcgen05_tile", "tile N of tcgen05"),
        (replace(TCGEN05, a="bf16", b="bf16", scales="none"), "tcgen05_tile", "tile K of bf16 x bf16"),
        (replace(TCGEN05, tile=Tile(64, 128, 128)), "tcgen05_tile", "has M 128, not 64"),
        (replace(TCGEN05, tile=Tile(128, 96, 128)), "tcgen05_tile", "tile N of tcgen05"),
        (replace(TCGEN05, tile=Tile(128, 128, 256)), "tcgen05_tile", "tile K of e4m3 x e4m3"),
        (replace(TCGEN05, pdl=True), "settled_fields", "pdl"),
        (replace(FP8, schedule="2sm"), "settled_fields", "schedule"),
        (replace(TCGEN05, swap_ab=True), "settled_fields", ""),
        (replace(TCGEN05, swap_ab=True, d="f32"), "settled_fields", "swap_ab"),
        (replace(FP8, scales="none"), "operand_types", "e4m3 has scales 128x128 or 1x128"),
        (replace(BF16, scales="1x128"), "operand_types", "bf16 has no scale factors"),
        (replace(FP8, tile=Tile(320, 128, 128)), "tile_sides", "tile M 320 is not 64, 128, 192 or 256"),
        (replace(FP8, tile=Tile(128, 60, 128)), "tile_sides", "tile N 60 is not a multiple of 8 up to 256"),
        (replace(FP8, tile=Tile(128, 128, 64)), "tile_depth", "is 64 bytes, not 128 or 256"),
        (replace(FP8, tile=Tile(128, 40, 128)), "subtiles", ""),
        (replace(FP8, tile=Tile(128, 136, 128)), "subtiles", "136 columns"),
        (replace(BF16, promotion="overlapped"), "promotion_of_tile", "are not promoted"),
        (
            replace(FP8, tile=Tile(64, 128, 128), promotion="in_turn"),
            "promotion_of_tile",
            "nobody to take turns",
        ),
        (
            replace(FP8, tile=Tile(128, 24, 128), promotion="halves"),
            "promotion_of_tile",
            "not a multiple of 16",
        ),
        (replace(FP8, tile=Tile(256, 192, 128)), "registers", "288 registers a thread for sums > 192"),
        (replace(FP8, tile=Tile(192, 128, 128)), "registers", ""),
        (replace(FP8, tile=Tile(192, 128, 128), scales="1x128"), "registers", "for factors of columns"),
        (replace(FP8, tile=Tile(192, 128, 128), d="f32"), "registers", "and addresses of F32"),
        (replace(FP8, promotion="overlapped", tile=Tile(128, 160, 128)), "registers", "240 registers"),
        (replace(FP8, layout="tt"), "layouts", "no instruction here transposes e4m3"),
        (replace(BF16, layout="tt", tile=Tile(128, 96, 64)), "layouts", "96 columns of a warpgroup"),
        (replace(FP8, stages=16), "shared_memory", "> 232448 B of sm_90, with 16 stages"),
        (replace(FP8, arch="sm_120f"), "mainloop_arch", "the mainloop lean is for sm_90a"),
        (replace(MMA, tile=Tile(128, 128, 128)), "registers", "128 registers a thread for sums > 112"),
        (replace(MMA, promotion="overlapped"), "promotion_of_tile", "one way to promote sums"),
        (replace(MMA, tile=Tile(128, 96, 64)), "tile_depth", "is 64 bytes, not 128 or 256"),
        (replace(MMA, constant_b=True), "constant_weights", "not mma, scales"),
        (replace(FP8, constant_b=True, scales="1x128"), "constant_weights", "lean, scales 1x128, D bf16"),
        (replace(FP8, constant_b=True, d="f32"), "constant_weights", "lean, scales 128x128, D f32"),
        (replace(FP8, constant_b=True, pdl=False), "constant_weights", "without pdl"),
        (replace(NARROW, swap_ab=True, tile=Tile(64, 8, 64)), "tile_depth", "512 B are not a multiple"),
        (replace(FP8, scales="1x32_ue8m0"), "packed_scales", "no instruction of lean on sm_90a"),
        (
            replace(MMA, scales="1x128_ue8m0", arch="sm_90a"),
            "packed_scales",
            "no instruction of mma on sm_90a",
        ),
        (replace(FP4, scales="1x128_ue8m0"), "operand_types", "mxfp4 has scales 1x32_ue8m0, not 1x128_ue8m0"),
        (replace(FP4, a="bf16"), "operand_types", "no kernel here multiplies bf16 by mxfp4"),
        (replace(FP4, layout="tt"), "layouts", "no instruction here transposes mxfp4"),
        (replace(FP4, arch="sm_90a", mainloop="lean"), "packed_scales", "no instruction of lean on sm_90a"),
        (replace(FP4, tile=Tile(64, 64, 64)), "tile_depth", "tile K of mxfp4 x mxfp4"),
        (replace(MIXED, tile=Tile(64, 64, 512)), "tile_depth", "tile K of e4m3 x mxfp4"),
        (
            replace(MIXED, a="mxfp4", b="e4m3", swap_ab=True, tile=Tile(64, 8, 128)),
            "tile_depth",
            "512 B of mxfp4 are not a multiple of 1024",
        ),
        (replace(FP4, tile=Tile(128, 128, 256)), "shared_memory", "> 101376 B of sm_12x, with 2 stages"),
        (replace(MMA, tile=Tile(192, 40, 128)), "tile_sides", "N is a multiple of 16, not 40"),
        (replace(MMA, arch="sm_90a", stages=4), "shared_memory", "> 101376 B of sm_12x, with 4 stages"),
        (
            replace(BF16, arch="sm_120f", mainloop="mma", layout="tt", tile=Tile(128, 96, 64)),
            "layouts",
            "96 columns of a warpgroup are not 32, or a multiple of 64",
        ),
    ],
)
def test_refused(config: GroupedGemmConfig, rule: str, message: str) -> None:
    actual = reasons(config)
    if not message:
        assert rule not in actual  # 40 columns are five units of 16 bytes
        return
    assert message in actual[rule]


def test_scale_factors_change_places_with_their_operands() -> None:
    assert own_scales(FP8) == ("rows", "blocks")
    assert own_scales(replace(FP8, swap_ab=True)) == ("blocks", "rows")
    assert own_scales(replace(FP8, scales="1x128")) == ("rows", "rows")
    assert own_scales(BF16) == ("none", "none")


def test_blocks_of_128_that_columns_lie_in() -> None:
    for columns in range(8, 257, 8):
        starts = range(0, 128 * columns, columns)
        assert blocks_of(columns) == max((at + columns - 1) // 128 - at // 128 + 1 for at in starts)


def test_shared_memory() -> None:
    stage, scales, blocks, barriers, stores, queue = 32_768, 512, 16, 16, 2 * 2 * 64 * 128, 384
    assert memory(FP8) == (5, 5 * (stage + scales + blocks + barriers) + stores + queue)
    # Columns of 24 floats, one for each 128 of k, begin at multiples of 128 bytes.
    swapped = replace(FP8, swap_ab=True, tile=Tile(64, 24, 256), stages=2)
    assert memory(swapped)[1] == 2 * (88 * 256 + 256 + blocks + barriers) + 24 * 128 + queue
    assert memory(replace(FP8, store_buffers=1))[0] == 6
    # Of four pieces of 256x128, all have room beside three stages; of six of 256x96, four beside four.
    assert [buffers(replace(FP8, tile=Tile(256, n, 128))) for n in (128, 96)] == [4, 4]
    assert [memory(replace(FP8, tile=Tile(256, n, 128)))[0] for n in (128, 96)] == [3, 4]
    assert buffers(replace(FP8, tile=Tile(256, 96, 128), stages=4)) == 4
    assert buffers(replace(FP8, tile=Tile(256, 128, 128), store_buffers=2)) == 2
    # F32 goes by TMA in pieces of an odd number of 8 columns where there is one: 9 of 18, twice.
    floats = replace(FP8, scales="1x128", d="f32", tile=Tile(128, 144, 128), stages=2)
    assert memory(floats)[1] == 2 * (272 * 128 + 512 + 640 + barriers) + 2 * 2 * 64 * 9 * 32 + queue


def test_shared_memory_of_fp4() -> None:
    """A stage has half the bytes for an element of FP4, and a line of words for each 128 of k."""
    barriers, queue, stores = 16, 384, 2 * 64 * 64 * 2  # stores of one subtile of each warpgroup
    swapped = replace(FP4, swap_ab=True, tile=Tile(64, 32, 256), stages=2)
    assert memory(swapped)[1] == 2 * (96 * 128 + 2 * (64 + 32) * 4 + barriers) + 64 * 32 * 2 + queue
    mixed = replace(MIXED, store_buffers=1, stages=2)
    assert memory(mixed)[1] == 2 * (128 * 128 + 128 * 64 + 256 * 4 + barriers) + stores + queue
    reverse = replace(mixed, a="mxfp4", b="e4m3", tile=Tile(128, 64, 128))
    assert memory(reverse)[1] == 2 * (128 * 64 + 64 * 128 + 192 * 4 + barriers) + stores // 2 + queue


def test_shared_memory_of_half_a_box() -> None:
    """A stage has 64 bytes of k, and one line of words."""
    barriers, queue, stores = 16, 384, 2 * 64 * 64 * 2  # stores of one subtile of each warpgroup
    assert memory(NARROW) == (4, 4 * (256 * 64 + 256 * 4 + barriers) + stores + queue)
    assert memory(replace(NARROW, tile=Tile(128, 128, 128)))[0] == 2


def test_where_not_even_two_stages_fit_the_bytes_of_two_are_told() -> None:
    """A message that compares two numbers is true."""
    for side in (256, 512):
        stages, total = memory(replace(FP8, tile=Tile(side, side, 256)))
        assert (total > HOPPER_SHARED_MEMORY) == (stages < 2)


OVERLAPPED = replace(FP8, tile=Tile(64, 48, 256), promotion="overlapped")


@pytest.mark.parametrize(
    ("config", "loop"),
    [
        (replace(FP8, tile=Tile(128, 160, 128)), "InRounds"),
        (replace(FP8, tile=Tile(128, 192, 128)), "InRounds"),
        (FP8, "InRounds"),  # its columns lie in one block of factors
        (replace(FP8, tile=Tile(128, 144, 128)), "Base"),  # eight copies of the loop
        (replace(FP8, tile=Tile(128, 224, 128)), "Base"),  # three blocks
        (replace(FP8, tile=Tile(128, 96, 128)), "Base"),
        (replace(FP8, tile=Tile(192, 128, 128)), "Base"),
        (replace(FP8, tile=Tile(128, 160, 128), promotion="in_turn"), "Base"),
        (OVERLAPPED, "OneCount"),
        (replace(OVERLAPPED, tile=Tile(128, 128, 128)), "OneCount"),
        (replace(OVERLAPPED, tile=Tile(256, 64, 128)), "Base"),  # 128 rows of a warpgroup
        (replace(OVERLAPPED, swap_ab=True), "Base"),  # factors of columns
        (replace(FP8, tile=Tile(64, 16, 256), swap_ab=True), "Base"),
        (replace(FP8, tile=Tile(128, 160, 128), scales="1x128"), ""),
        (replace(OVERLAPPED, d="f32"), ""),
        (BF16, ""),
    ],
)
def test_which_main_loop_forms_run(config: GroupedGemmConfig, loop: str) -> None:
    base = loop if loop in ("", "Base") else f"grouped_gemm::{loop}<Base>"
    assert kernel_around(config) == (base and f"grouped_gemm::ShortForms<{base}>")


@pytest.mark.parametrize(
    ("config", "form"),
    [
        (replace(FP8, tile=Tile(128, 104, 128), scales="1x128", d="f32"), "AlongK"),
        (replace(FP8, tile=Tile(256, 96, 128), scales="1x128", d="f32"), "AlongK"),
        (replace(OVERLAPPED, tile=Tile(64, 64, 256), scales="1x128", d="f32"), ""),  # two boxes of k
        (replace(FP8, tile=Tile(128, 160, 128), scales="1x128"), ""),
        (replace(FP8, tile=Tile(128, 160, 128), d="f32"), ""),
        (replace(BF16, layout="nt", d="f32"), "MnAlongK"),
        (replace(BF16, d="f32"), ""),  # k is contiguous, and so no group along k is a matrix
        # what the forms' static_asserts refuse is left to the general code
        (replace(FP8, tile=Tile(64, 128, 128), scales="1x128", d="f32"), ""),
        (replace(FP8, tile=Tile(128, 64, 128), scales="1x128", d="f32", swap_ab=True), ""),
        (replace(FP8, tile=Tile(128, 16, 128), scales="1x128", d="f32", stages=7), "AlongK"),
        (replace(FP8, tile=Tile(128, 16, 128), scales="1x128", d="f32", stages=8), ""),
        (replace(BF16, layout="nt", d="f32", tile=Tile(64, 64, 64)), ""),
        (replace(BF16, layout="nt", d="f32", swap_ab=True), ""),
    ],
)
def test_kernels_that_multiply_groups_along_k_have_a_form_for_them(
    config: GroupedGemmConfig, form: str
) -> None:
    assert kernel_around(config) == (form and f"grouped_gemm::{form}<Base>")


def test_kernels_of_constant_weights_have_the_forms_that_load_them_first() -> None:
    config = replace(OVERLAPPED, constant_b=True)
    assert not reasons(config)
    assert variables(config)["around"] == "grouped_gemm::WeightsFirst<Base>"


def test_kernels_without_wgmma_have_no_forms() -> None:
    assert "around" not in variables(MMA)


def test_names() -> None:
    assert FAMILY.kernel_name(FP8) == "grouped_gemm_sm90_e4m3_e4m3_bf16_1x128_128x128_128x128x128"
    other = replace(BF16, swap_ab=True, store_buffers=1, stages=4, pdl=False)
    assert (
        FAMILY.kernel_name(other) == "grouped_gemm_sm90_bf16_bf16_bf16_128x128x64_swap_1buffer_4stages_nopdl"
    )
    turns = replace(FP8, promotion="in_turn")
    assert FAMILY.kernel_name(turns).endswith("_128x128x128_inturn")
    assert FAMILY.kernel_name(replace(MMA, swap_ab=True)).endswith(
        "_sm120f_e4m3_e4m3_bf16_1x128_128x128_128x96x128_mma_swap"
    )


def test_a_row_leaves_out_a_mainloop_that_older_rows_lack() -> None:
    assert "mainloop" not in rows.written(FP8)
    left_out = {"mainloop", "schedule", "constant_b"}
    kept = {name: value for name, value in asdict(FP8).items() if name not in left_out}
    assert rows.written(FP8) == kept | {"tile": FP8.tile}
    assert rows.written(MMA)["mainloop"] == "mma"


def test_shared_memory_of_groups_on_tcgen05_is_what_cutlass_was_asked_for() -> None:
    """CUTLASS 4.2's SharedStorageSize and stages of trial units."""
    swapped = replace(TCGEN05, b="mxfp4", swap_ab=True, schedule="1sm", tile=Tile(128, 64, 128))
    assert memory(replace(TCGEN05, schedule="1sm")) == (6, 221184)
    assert memory(swapped) == (8, 224256)
    floats = replace(TCGEN05, scales="128x128")
    assert memory(floats) == (8, 219136)
    assert memory(replace(floats, swap_ab=True, schedule="1sm", tile=Tile(128, 32, 128))) == (10, 218112)
    assert memory(
        replace(BF16, arch="sm_100f", mainloop="tcgen05", schedule="2sm", tile=Tile(128, 256, 64))
    ) == (
        6,
        231424,
    )
