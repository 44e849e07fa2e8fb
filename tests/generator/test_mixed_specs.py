"""What the rules of `mixed_gemm` reject, with which numbers, and what its spec makes."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from command_line import ROOT
from rule_checks import Rejected, check_every_rule_is_shown, check_rejected

from tilewright.configurations.shapes import Tile
from tilewright.families.mixed_gemm.config import MixedGemmConfig
from tilewright.families.mixed_gemm.memory import memory, scale_bytes, warpgroups
from tilewright.families.mixed_gemm.rules import RULES
from tilewright_generator import families
from tilewright_generator.rules import verdicts

FAMILY = families.get("mixed_gemm")
ROWS = json.loads((ROOT / "generated/sm90_mixed_gemm/table.json").read_text(encoding="utf-8"))["kernels"]
FEW = MixedGemmConfig("sm_90a", "bf16", "int4_g128", Tile(128, 16, 128))
MANY = MixedGemmConfig("sm_90a", "bf16", "mxfp4", Tile(128, 256, 64))
WIDE = MixedGemmConfig("sm_90a", "bf16", "int4_g128", Tile(256, 64, 128))
STREAM = MixedGemmConfig("sm_90a", "bf16", "nvfp4", Tile(64, 8, 128), "stream")
BALANCED = MixedGemmConfig("sm_90a", "bf16", "mxfp4", Tile(128, 32, 128), "balanced")

# A neighbour of a legal one; the rule that alone rejects it; what its reason says; and what makes it legal.
REJECTED: list[Rejected] = [
    (MANY, {"a": "f16"}, "types", "not f16", {"weight_format": "nvfp4"}),
    (FEW, {"tile": Tile(320, 16, 128)}, "tile_sides", "320", {"tile": Tile(256, 16, 128)}),
    (FEW, {"tile": Tile(128, 40, 128)}, "tile_sides", "40", {"tile": Tile(128, 32, 128)}),
    (
        BALANCED, {"tile": Tile(256, 40, 128)}, "tile_sides", "40", {"activation": "silu_mul"},
    ),
    (
        FEW, {"tile": Tile(128, 40, 128), "activation": "silu_mul"}, "tile_sides", "40",
        {"mainloop": "balanced"},
    ),
    (FEW, {"tile": Tile(128, 16, 256)}, "tile_depth", "256", {"tile": Tile(128, 16, 128)}),
    (MANY, {"tile": Tile(256, 192, 64)}, "registers", "192 sums", {"tile": Tile(256, 128, 64)}),
    (MANY, {"tile": Tile(192, 192, 64)}, "registers", "96 sums", {"tile": Tile(192, 128, 64)}),
    (
        FEW, {"tile": Tile(128, 64, 128), "k_groups": 2}, "registers", "32 sums to a thread, of at most 16",
        {"weight_format": "mxfp4"},
    ),
    (MANY, {"tile": Tile(128, 256, 128), "stages": 4}, "shared_memory", "two stages", {"stages": 2}),
    (FEW, {"k_groups": 4}, "warpgroups_of_block", "8 warpgroups", {"k_groups": 2}),
    (FEW, {"k_groups": 2, "stages": 5}, "warpgroups_of_block", "5 stages", {"stages": 6}),
    (FEW, {"stages": 2, "tile": Tile(256, 16, 64)}, "room_for_sums", "16,384", {"stages": 8}),
    (FEW, {"stages": 4, "tile": Tile(128, 16, 64), "k_groups": 2}, "room_for_sums", "16,384", {"stages": 8}),
    (STREAM, {"tile": Tile(192, 8, 128)}, "stream_tile", "M of a stream tile", {"tile": Tile(128, 8, 128)}),
    (STREAM, {"tile": Tile(64, 40, 128)}, "stream_tile", "N of a stream tile", {"tile": Tile(64, 16, 128)}),
    (STREAM, {"tile": Tile(64, 8, 64)}, "stream_tile", "K of a stream tile", {"tile": Tile(128, 16, 128)}),
    (STREAM, {"k_groups": 2}, "warps_of_mainloop", "k_groups", {"mainloop": "wgmma"}),
    (FEW, {"warps": 4}, "warps_of_mainloop", "warps", {"mainloop": "stream"}),
    (BALANCED, {"k_groups": 2}, "warps_of_mainloop", "k_groups", {"mainloop": "wgmma"}),
    (BALANCED, {"d": "f32"}, "warps_of_mainloop", "d of a balanced kernel is same", {"mainloop": "wgmma"}),
    (BALANCED, {"tile": Tile(128, 144, 128)}, "left_sums", "18 column groups", {"tile": Tile(128, 160, 128)}),
    (FEW, {"activation": "silu_mul", "d": "f32"}, "gated_type", "d of a gated kernel is same", {"d": "same"}),
    (WIDE, {"schedule": "early"}, "schedule_of_mainloop", "256x64x128", {"tile": Tile(128, 64, 128)}),
    (
        MANY, {"schedule": "early"}, "schedule_of_mainloop", "128x256x64",
        {"tile": Tile(128, 64, 128), "schedule": "in_turn"},
    ),
    (
        FEW, {"schedule": "in_turn", "weight_format": "e4m3_g128"}, "schedule_of_mainloop", "4-bit weights",
        {"weight_format": "nvfp4"},
    ),
    (
        FEW, {"schedule": "in_turn", "tile": Tile(64, 16, 128)}, "schedule_of_mainloop", "no turns",
        {"schedule": "early"},
    ),
    (FEW, {"schedule": "in_turn", "k_groups": 2}, "schedule_of_mainloop", "k_groups", {"schedule": "early"}),
    (STREAM, {"schedule": "early"}, "schedule_of_mainloop", "stream kernels", {"schedule": "at_will"}),
    (STREAM, {"stages": 8}, "stream_memory", "8 warps", {"warps": 4}),
    (
        STREAM, {"weight_format": "int4_g128", "tile": Tile(64, 32, 128), "warps": 4, "stages": 2},
        "stream_room", "8,704", {"stages": 3},
    ),
]  # fmt: skip


@pytest.mark.parametrize("one", [FEW, MANY, STREAM, BALANCED], ids=FAMILY.kernel_name)
def test_the_usual_ones_are_accepted(one: MixedGemmConfig) -> None:
    assert verdicts(FAMILY, one) == []


@pytest.mark.parametrize("one", REJECTED, ids=lambda one: one[2])
def test_what_is_rejected(one: Rejected) -> None:
    check_rejected(FAMILY, one)


def test_every_rule_is_shown() -> None:
    check_every_rule_is_shown(REJECTED, RULES)


def test_shared_memory_is_as_layout_hpp_lays_it_out() -> None:
    weights, scales, activations, barriers = 2 * 4096, 2 * 128, 16 * 256, 16
    stores = 2 * 16 * 64 * 2  # a buffer of 16 rows for each of two warpgroups
    assert memory(replace(FEW, stages=5)) == (5, 5 * (weights + scales + activations + barriers) + stores)


def test_a_gated_kernel_stores_half_of_the_columns() -> None:
    plain = memory(replace(FEW, stages=5))
    assert memory(replace(FEW, stages=5, activation="silu_mul")).total == plain.total - 16 * 64 * 2


def test_a_stage_of_64_of_k_has_half_of_the_scales_unless_all_128_share_them() -> None:
    for name, of_128 in (("int4_g128", 128), ("int4_g32", 512), ("int4_zp_g64", 512), ("nvfp4", 512)):
        config = replace(FEW, weight_format=name)
        half = of_128 if name == "int4_g128" else of_128 // 2
        assert scale_bytes(config) == of_128
        assert scale_bytes(replace(config, tile=Tile(128, 16, 64))) == half


def test_shared_memory_is_as_stream_warp_hpp_lays_it_out() -> None:
    stage = 4096 + 512 + 8 * 256 + 8  # a unit of weights, its scales, rows of activations, and a barrier
    assert memory(replace(STREAM, stages=3)) == (3, 8 * 3 * stage + 8 * (64 + 4) * 4)


def test_codes_of_8_bits_take_twice_the_room() -> None:
    rest = 2 * 128 + 16 * 256 + 16  # scales, activations, barriers
    wide = replace(FEW, weight_format="e4m3_g128", stages=5)
    assert memory(wide) == (5, 5 * (2 * 8192 + rest) + 2 * 16 * 64 * 2)
    half = replace(wide, tile=Tile(128, 16, 64))
    assert memory(half).total == 5 * (2 * 4096 + 2 * 128 + 16 * 128 + 16) + 2 * 16 * 64 * 2
    stage = 8192 + 128 + 8 * 256 + 8
    stream = replace(STREAM, weight_format="int8_g128", stages=2)
    assert memory(stream) == (2, 8 * 2 * stage + 8 * (64 + 4) * 4)


def test_auto_takes_what_fits() -> None:
    for config in (MANY, replace(FEW, tile=Tile(256, 64, 128)), STREAM, replace(STREAM, warps=4)):
        stages, total = memory(config)
        assert total <= 232_448 < memory(replace(config, stages=stages + 1))[1]


def test_groups_of_warpgroups_have_equally_many_stages() -> None:
    wide = replace(FEW, tile=Tile(128, 32, 128))
    assert memory(wide).stages == 13
    assert memory(replace(wide, k_groups=2)).stages == 12


def test_warpgroups_divide_a_tile_by_rows() -> None:
    rows = {64: (1, 1), 128: (2, 1), 192: (3, 1), 256: (2, 2)}
    for m, expected in rows.items():
        assert warpgroups(replace(FEW, tile=Tile(m, 64, 128)))[:2] == expected
    assert warpgroups(replace(FEW, tile=Tile(256, 32, 128)))[:2] == (4, 1)


def test_names_tell_kernels_apart() -> None:
    changes = [
        {},
        {"a": "f16"},
        {"weight_format": "int4_g64"},
        {"k_groups": 2},
        {"stages": 3},
        {"pdl": False},
    ]
    assert len({FAMILY.kernel_name(replace(FEW, **change)) for change in changes}) == len(changes)


def test_every_format_of_the_spec_has_tiles_for_few_and_for_many_rows() -> None:
    kinds = {(row["config"]["a"], row["config"]["weight_format"]) for row in ROWS}
    assert len(kinds) > 8
    for kind in kinds:
        rows = [row["config"] for row in ROWS if (row["config"]["a"], row["config"]["weight_format"]) == kind]
        columns = {config["tile"][1] for config in rows}
        assert min(columns) <= 16
        assert max(columns) == 256
