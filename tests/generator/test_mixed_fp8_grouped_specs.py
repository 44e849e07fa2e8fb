"""What the rules of `mixed_fp8_grouped_gemm` reject, what its spec makes, and how its model ranks."""

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
from tilewright.families.mixed_fp8_gemm.memory import memory as dense_memory
from tilewright.families.mixed_fp8_grouped_gemm.family import FAMILY as SELECTION
from tilewright.families.mixed_fp8_grouped_gemm.memory import memory
from tilewright.families.mixed_fp8_grouped_gemm.problem import Problem
from tilewright.families.mixed_fp8_grouped_gemm.rules import RULES
from tilewright.families.mixed_grouped_gemm.memory import QUEUE
from tilewright.libraries.registry import Registry
from tilewright_generator import families
from tilewright_generator.rules import verdicts

FAMILY = families.get("mixed_fp8_grouped_gemm")
TABLE = ROOT / "generated/sm90_mixed_fp8_grouped_gemm/table.json"
ROWS = json.loads(TABLE.read_text(encoding="utf-8"))["kernels"]
FEW = MixedFp8GemmConfig("sm_90a", "bf16", "int4_g128", Tile(64, 16, 128))
MANY = MixedFp8GemmConfig("sm_90a", "bf16", "mxfp4", Tile(128, 192, 128))
FAST = replace(MANY, fast_accum=True)
PARTS = replace(MANY, weight_format="int4_g128", schedule="parts_in_turn", tile=Tile(128, 160, 128))
PAIR = MixedFp8GemmConfig("sm_90a", "bf16", "mxfp4", Tile(128, 16, 128), k_groups=2, block=32)

# A neighbour of a legal one; the rule that alone rejects it; what its reason says; and what makes it legal.
REJECTED: list[Rejected] = [
    (FEW, {"weight_format": "nvfp4"}, "formats", "not nvfp4", {"weight_format": "mxfp4"}),
    (FEW, {"tile": Tile(256, 16, 128)}, "tile_sides", "256", {"tile": Tile(128, 16, 128)}),
    (PAIR, {"k_groups": 1}, "blocks_of_groups", "k_groups", {"block": "auto"}),
    (PAIR, {"weight_format": "int4_g32"}, "blocks_of_groups", "weight_format", {"block": "auto"}),
    (MANY, {"schedule": "ahead"}, "decodes_at_will", "at_will", {"schedule": "at_will"}),
    (PARTS, {"balanced": True}, "whole_tiles", "balanced", {"balanced": False}),
    (PARTS, {"tile": Tile(64, 160, 128)}, "two_multiply", "in_turn has two", {"tile": Tile(128, 128, 128)}),
    (PARTS, {"weight_format": "int4_g64"}, "quick_integers", "not int4_g64", {"weight_format": "int4_g128"}),
    (PARTS, {"k_groups": 2}, "one_group_in_turn", "k_groups 2", {"k_groups": 1}),
    (PAIR, {"stages": 5}, "stages_of_groups", "5 stages", {"stages": 6}),
    (PARTS, {"tile": Tile(128, 16, 128)}, "columns_of_last_tiles", "has 16", {"tile": Tile(128, 32, 128)}),
    (
        FAST, {"schedule": "quick", "tile": Tile(128, 16, 128)}, "columns_of_last_tiles", "32 columns",
        {"schedule": "at_will"},
    ),
    (FEW, {"fast_accum": True}, "fast_formats", "fast_accum is false", {"weight_format": "mxfp4"}),
    (FAST, {"width": 64}, "fast_schedule", "width", {"width": "auto"}),
    (MANY, {"width": 80}, "part_width", "80 columns", {"width": 64}),
    (MANY, {"stages": 8}, "shared_memory", "two stages", {"stages": 4}),
]  # fmt: skip


@pytest.mark.parametrize("one", [FEW, MANY, PARTS], ids=FAMILY.kernel_name)
def test_the_usual_ones_are_accepted(one: MixedFp8GemmConfig) -> None:
    assert verdicts(FAMILY, one) == []


@pytest.mark.parametrize("one", REJECTED, ids=lambda one: one[2])
def test_what_is_rejected(one: Rejected) -> None:
    check_rejected(FAMILY, one)


def test_every_rule_is_shown() -> None:
    check_every_rule_is_shown(REJECTED, RULES)


@pytest.mark.parametrize("one", [FEW, MANY], ids=FAMILY.kernel_name)
def test_shared_memory_has_the_queue(one: MixedFp8GemmConfig) -> None:
    """Beside what the dense kernel of as many stages has."""
    same = replace(one, stages=4)
    assert memory(same).total == dense_memory(same).total + QUEUE
    stages, total = memory(one)
    assert total <= 232_448
    assert stages == MOST_STAGES or memory(replace(one, stages=stages + 1)).total > 232_448


def test_names_are_not_those_of_the_dense_kernels() -> None:
    assert FAMILY.kernel_name(FEW) == "mixed_fp8_grouped_gemm_sm90_e4m3_int4_g128_bf16_64x16x128"


def test_every_format_of_the_spec_has_tiles_for_few_and_for_many_rows() -> None:
    kinds = {(row["config"]["d"], row["config"]["weight_format"]) for row in ROWS}
    assert {("bf16", "int4_g128"), ("bf16", "mxfp4"), ("f16", "int4_g128")} < kinds
    for kind in kinds:
        rows = [row["config"] for row in ROWS if (row["config"]["d"], row["config"]["weight_format"]) == kind]
        columns = {config["tile"][1] for config in rows}
        assert min(columns) == 16
        assert max(columns) >= 128


def records() -> list[KernelRecord]:
    return Registry().kernels("mixed_fp8_grouped_gemm")


@pytest.mark.parametrize(("tokens", "most", "least"), [(8, 32, 8), (16384, 256, 128)])
def test_the_model_takes_narrow_tiles_for_few_rows(tokens: int, most: int, least: int) -> None:
    """Each token chooses two of 8 experts."""
    first = SELECTION.rank(records(), Problem(2 * tokens, 4096, 4096, 8), H200)[0]
    assert least <= first.record.config["tile"][1] <= most


def test_batch_invariant_mode_leaves_out_groups_of_warpgroups() -> None:
    problem = Problem(16, 4096, 4096, 8)
    left_out = {
        candidate.record.config["k_groups"]
        for candidate in SELECTION.rank(records(), problem, H200)
        if SELECTION.misfit_invariant(candidate.tactic, candidate.record, problem) is not None
    }
    assert left_out == {2}


def test_bytes_of_a_problem() -> None:
    """Activations take one byte each, not two as 16 bits do, and their rows have factors."""
    problem = Problem(64, 128, 256, 2, a_scale=True)
    scales, packed = 4 * 64, 2 * 2 * 2 * (4096 + 128)
    assert problem.bytes == packed + 64 * (256 + 2 * 128) + scales
    assert replace(problem, grouping="rows_valid").scales_shape == (2, 64)
    assert problem.scales_shape == (64,)
