"""What the rules of `mixed_fp8_gemm` reject, what its spec makes, and how its model ranks."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from command_line import ROOT
from rule_checks import Rejected, check_every_rule_is_shown, check_rejected

from tilewright.architectures.device import H200
from tilewright.configurations.lean_tiles import MOST_STAGES
from tilewright.configurations.shapes import Tile
from tilewright.declarations.table import KernelRecord
from tilewright.families.mixed_fp8_gemm.config import MixedFp8GemmConfig
from tilewright.families.mixed_fp8_gemm.family import FAMILY as SELECTION
from tilewright.families.mixed_fp8_gemm.memory import memory, stage_bytes, width
from tilewright.families.mixed_fp8_gemm.problem import Problem
from tilewright.families.mixed_fp8_gemm.rules import RULES
from tilewright.libraries.registry import Registry
from tilewright_generator import families
from tilewright_generator.rules import verdicts

FAMILY = families.get("mixed_fp8_gemm")
TABLE = ROOT / "generated/sm90_mixed_fp8_gemm/table.json"
ROWS = json.loads(TABLE.read_text(encoding="utf-8"))["kernels"]
FEW = MixedFp8GemmConfig("sm_90a", "bf16", "int4_g128", Tile(64, 16, 128))
MANY = MixedFp8GemmConfig("sm_90a", "bf16", "mxfp4", Tile(128, 192, 128))
IN_TURN = replace(MANY, schedule="in_turn", tile=Tile(128, 160, 128))
PARTS = replace(MANY, weight_format="int4_g128", schedule="parts_in_turn", tile=Tile(128, 256, 128))

# A neighbour of a legal one; the rule that alone rejects it; what its reason says; and what makes it legal.
REJECTED: list[Rejected] = [
    (MANY, {"weight_format": "nvfp4"}, "formats", "not nvfp4", {"weight_format": "int4_g32"}),
    (MANY, {"weight_format": "e4m3_g128"}, "formats", "not e4m3_g128", {"weight_format": "mxfp4"}),
    (MANY, {"tile": Tile(192, 64, 128)}, "tile_sides", "192", {"tile": Tile(128, 64, 128)}),
    (FEW, {"tile": Tile(64, 16, 64)}, "tile_sides", "64", {"tile": Tile(64, 16, 128)}),
    (FEW, {"schedule": "ahead"}, "two_multiply", "M 64", {"tile": Tile(128, 64, 128)}),
    (IN_TURN, {"tile": Tile(64, 160, 128)}, "two_multiply", "in_turn has two", {"tile": Tile(128, 160, 128)}),
    (IN_TURN, {"weight_format": "int4_g64"}, "whole_stages", "have 64", {"weight_format": "int4_g128"}),
    (IN_TURN, {"tile": Tile(128, 176, 128)}, "part_width", "of 320 together", {"tile": Tile(128, 144, 128)}),
    (PARTS, {"weight_format": "mxfp4"}, "quick_integers", "not mxfp4", {"weight_format": "int4_g128"}),
    (PARTS, {"tile": Tile(64, 256, 128)}, "two_multiply", "in_turn has two", {"tile": Tile(128, 224, 128)}),
    (PARTS, {"tile": Tile(128, 240, 128), "width": 160}, "tile_sides", "240", {"tile": Tile(128, 160, 128)}),
    (PARTS, {"width": 144}, "part_width", "parts of 144 columns do not divide", {"width": 128}),
    (MANY, {"width": 80}, "part_width", "parts of 80 columns do not divide", {"width": 64}),
    (MANY, {"tile": Tile(128, 256, 128), "width": 128}, "part_width", "of 320 together", {"width": 32}),
    (FEW, {"fast_accum": True}, "fast_formats", "scales of int4_g128", {"weight_format": "mxfp4"}),
    (MANY, {"fast_accum": True, "schedule": "ahead"}, "fast_schedule", "at_will", {"schedule": "at_will"}),
    (MANY, {"schedule": "quick"}, "fast_schedule", "fast_accum", {"fast_accum": True}),
    (
        MANY, {"balanced": True}, "balanced_schedule", "not at_will",
        {"schedule": "quick", "fast_accum": True},
    ),
    (
        PARTS, {"balanced": True, "tile": Tile(128, 144, 128)}, "left_sums", "18 column groups",
        {"tile": Tile(128, 160, 128)},
    ),
    (FEW, {"k_groups": 2}, "one_group", "k_groups", {"k_groups": 1}),
    (MANY, {"block": 32}, "blocks_of_groups", "k_groups", {"block": "auto"}),
    (MANY, {"stages": 7}, "shared_memory", "two stages", {"stages": 4}),
    (FEW, {"stages": 2, "tile": Tile(128, 16, 128)}, "room_for_sums", "activations 4,096", {"stages": 4}),
]  # fmt: skip


@pytest.mark.parametrize("one", [FEW, MANY, IN_TURN, PARTS], ids=FAMILY.kernel_name)
def test_the_usual_ones_are_accepted(one: MixedFp8GemmConfig) -> None:
    assert verdicts(FAMILY, one) == []


@pytest.mark.parametrize("one", REJECTED, ids=lambda one: one[2])
def test_what_is_rejected(one: Rejected) -> None:
    check_rejected(FAMILY, one)


def test_every_rule_is_shown() -> None:
    check_every_rule_is_shown(REJECTED, RULES)


@pytest.mark.parametrize(
    ("format", "expected"),
    [
        ("int4_g128", 2 * (4096 + 128)),
        ("int4_zp_g32", 2 * (4096 + 1024)),
        ("mxfp4", 2 * (4096 + 256)),
    ],
)
def test_bytes_of_a_stage(format: str, expected: int) -> None:
    """Weights and scales as docs/packed_weights.md lists them, and activations of one byte."""
    assert stage_bytes(replace(MANY, weight_format=format)) == expected + 192 * 128


def test_auto_takes_what_fits() -> None:
    for config in (MANY, FEW):
        stages, total = memory(config)
        assert total <= 232_448
        assert stages == MOST_STAGES or memory(replace(config, stages=stages + 1)).total > 232_448


@pytest.mark.parametrize(
    ("columns", "expected"), [(8, 8), (64, 64), (128, 128), (160, 80), (192, 96), (224, 32), (256, 64)]
)
def test_parts_are_as_wide_as_registers_allow(columns: int, expected: int) -> None:
    assert width(replace(MANY, tile=Tile(128, columns, 128))) == expected


def test_names() -> None:
    assert FAMILY.kernel_name(FEW) == "mixed_fp8_gemm_sm90_e4m3_int4_g128_bf16_64x16x128"


def test_every_format_of_the_spec_has_tiles_for_few_and_for_many_rows() -> None:
    kinds = {(row["config"]["d"], row["config"]["weight_format"]) for row in ROWS}
    assert {("bf16", "int4_g128"), ("bf16", "mxfp4")} <= kinds
    for kind in kinds:
        rows = [row["config"] for row in ROWS if (row["config"]["d"], row["config"]["weight_format"]) == kind]
        columns = {config["tile"][1] for config in rows}
        assert min(columns) <= 16
        assert max(columns) >= 128


def records() -> list[KernelRecord]:
    return Registry().kernels("mixed_fp8_gemm")


@pytest.mark.parametrize(("m", "most", "least"), [(8, 32, 8), (8192, 256, 128)])
def test_the_model_takes_narrow_tiles_for_few_rows(m: int, most: int, least: int) -> None:
    first = SELECTION.rank(records(), Problem(m, 8192, 8192), H200)[0]
    assert least <= first.record.config["tile"][1] <= most


def test_the_model_splits_k_for_few_tiles() -> None:
    assert SELECTION.rank(records(), Problem(8, 1024, 16384), H200)[0].tactic.splits > 1


def test_batch_invariant_mode_leaves_out_splits() -> None:
    problem = Problem(500, 4096, 4096)
    for candidate in SELECTION.rank(records(), problem, H200):
        reason = SELECTION.misfit_invariant(candidate.tactic, candidate.record, problem)
        assert (reason is None) == (candidate.tactic.splits == 1 and not candidate.record.config["balanced"])


@pytest.mark.parametrize("cluster", ["1x2", "3x1", "2x2"])
def test_clusters_share_activations_alone(cluster: str) -> None:
    record = records()[0]
    tactic = replace(SELECTION.candidates(record, Problem(16, 4096, 4096), H200)[0], cluster=cluster)
    reason = SELECTION.misfit_arguments(tactic, record)
    assert reason is not None
    assert cluster in reason
