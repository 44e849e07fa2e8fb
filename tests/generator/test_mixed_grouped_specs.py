"""What the rules of `mixed_grouped_gemm` reject, what its spec makes, and how its model ranks."""

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
from tilewright.families.mixed_gemm.config import MixedGemmConfig
from tilewright.families.mixed_gemm.memory import memory as dense_memory
from tilewright.families.mixed_grouped_gemm.cost import routed_tiles, tiles_across
from tilewright.families.mixed_grouped_gemm.family import FAMILY as SELECTION
from tilewright.families.mixed_grouped_gemm.memory import QUEUE, memory
from tilewright.families.mixed_grouped_gemm.problem import Problem
from tilewright.families.mixed_grouped_gemm.rules import RULES
from tilewright.libraries.registry import Registry
from tilewright_generator import families
from tilewright_generator.rules import verdicts

FAMILY = families.get("mixed_grouped_gemm")
TABLE = ROOT / "generated/sm90_mixed_grouped_gemm/table.json"
ROWS = json.loads(TABLE.read_text(encoding="utf-8"))["kernels"]
FEW = MixedGemmConfig("sm_90a", "bf16", "int4_g128", Tile(64, 16, 128), k_groups=4)
MANY = MixedGemmConfig("sm_90a", "bf16", "mxfp4", Tile(128, 256, 64))
STREAM = MixedGemmConfig("sm_90a", "bf16", "nvfp4", Tile(64, 8, 128), "stream")

# A neighbour of a legal one; the rule that alone rejects it; what its reason says; and what makes it legal.
REJECTED: list[Rejected] = [
    (MANY, {"warps": 4}, "warps_of_mainloop", "warps", {"warps": 8}),
    (FEW, {"mainloop": "balanced", "k_groups": 1}, "mainloop", "wgmma or stream", {"mainloop": "wgmma"}),
    (MANY, {"d": "f32"}, "type_of_d", "same", {"d": "same"}),
    (STREAM, {"tile": Tile(64, 40, 128)}, "stream_tile", "40", {"tile": Tile(64, 16, 128)}),
    (STREAM, {"stages": 8}, "stream_memory", "8 warps", {"warps": 4}),
    (
        STREAM, {"weight_format": "int4_g128", "tile": Tile(64, 32, 128), "warps": 4, "stages": 2},
        "stream_room", "8,704", {"stages": 3},
    ),
    (MANY, {"schedule": "early"}, "schedule_of_mainloop", "128x256x64", {"tile": Tile(128, 64, 128)}),
    (MANY, {"a": "f16"}, "types", "not f16", {"weight_format": "nvfp4"}),
    (MANY, {"tile": Tile(320, 16, 128)}, "tile_sides", "320", {"tile": Tile(256, 16, 128)}),
    (FEW, {"tile": Tile(64, 16, 256)}, "tile_depth", "256", {"tile": Tile(64, 16, 128)}),
    (FEW, {"tile": Tile(128, 16, 128)}, "warpgroups_of_block", "8 warpgroups", {"k_groups": 2}),
    (MANY, {"tile": Tile(256, 192, 64)}, "registers", "192 sums", {"tile": Tile(256, 128, 64)}),
    (MANY, {"tile": Tile(128, 256, 128), "stages": 4}, "shared_memory", "two stages", {"stages": 2}),
]  # fmt: skip


@pytest.mark.parametrize("one", [FEW, MANY, STREAM], ids=FAMILY.kernel_name)
def test_the_usual_ones_are_accepted(one: MixedGemmConfig) -> None:
    assert verdicts(FAMILY, one) == []


@pytest.mark.parametrize("one", REJECTED, ids=lambda one: one[2])
def test_what_is_rejected(one: Rejected) -> None:
    check_rejected(FAMILY, one)


def test_every_rule_is_shown() -> None:
    check_every_rule_is_shown(REJECTED, RULES)


def test_shared_memory_has_the_queue_and_the_sums_of_three_groups_of_warpgroups() -> None:
    """Beside what the dense kernel of as many stages has."""
    same = replace(FEW, stages=8)
    assert memory(same).total == dense_memory(same).total + QUEUE + 3 * 64 * 16 * 4
    alone = replace(MANY, stages=4)
    assert memory(alone).total == dense_memory(alone).total + QUEUE


def test_a_gated_kernel_stores_half_of_the_columns() -> None:
    """So a stage more may fit; its name and its source say that it is gated."""
    plain = MixedGemmConfig("sm_90a", "bf16", "int4_g128", Tile(128, 64, 128), stages=8)
    gated = replace(plain, activation="silu_mul")
    buffers = 2 * 2 * 32 * 64 * 2  # two for each of two warpgroups: 32 rows of 64 elements
    assert memory(plain).total - memory(gated).total == buffers // 2
    assert FAMILY.kernel_name(gated) == FAMILY.kernel_name(plain) + "_silu_mul"
    variables = FAMILY.variables(gated)
    assert (variables["header"], variables["gated"]) == ("gated", "Gated")
    assert variables["formula"].startswith("D[m,n/2] = silu(gate) * up")
    stream = FAMILY.variables(replace(STREAM, activation="silu_mul"))
    assert (stream["header"], stream["gated"]) == ("gated_stream", "Gated")
    assert memory(replace(STREAM, activation="silu_mul")) == memory(STREAM)


def test_auto_takes_what_fits() -> None:
    for config in (MANY, FEW, replace(FEW, tile=Tile(64, 32, 128))):
        stages, total = memory(config)
        assert total <= 232_448
        assert stages % config.k_groups == 0
        assert (
            stages == MOST_STAGES or memory(replace(config, stages=stages + config.k_groups)).total > 232_448
        )


def test_names_are_not_those_of_the_dense_kernels() -> None:
    assert FAMILY.kernel_name(FEW) == "mixed_grouped_gemm_sm90_bf16_int4_g128_64x16x128_4kgroups"


def test_every_format_of_the_spec_has_tiles_for_few_and_for_many_rows() -> None:
    kinds = {(row["config"]["a"], row["config"]["weight_format"]) for row in ROWS}
    assert {("bf16", "int4_g128"), ("bf16", "int4_g32"), ("bf16", "mxfp4"), ("bf16", "nvfp4")} < kinds
    for kind in kinds:
        rows = [row["config"] for row in ROWS if (row["config"]["a"], row["config"]["weight_format"]) == kind]
        columns = {config["tile"][1] for config in rows}
        assert min(columns) <= 16
        assert max(columns) == 256


@pytest.mark.parametrize(
    ("problem", "rows", "expected"),
    [
        (Problem(800, 64, 64, 8), 8, 8 * (9 + 11 + 13 + 15 + 17) / 5),  # 100 rows a group, give or take 30 %
        (Problem(20, 64, 64, 32), 8, 15),  # groups that have rows: 32 (1 - (31/32)^20)
        (Problem(800, 64, 64, 8, grouping="row_index"), 16, 50 + 7),  # tiles of two groups count twice
        (Problem(800, 64, 64, 8, grouping="row_index", row_alignment=16), 16, 8 * (5 + 6 + 7 + 8 + 9) / 5),
        (Problem(512, 64, 64, 8, grouping="rows_valid", expected_m=10), 16, 8),
    ],
)  # fmt: skip
def test_tiles_that_the_model_expects(problem: Problem, rows: int, expected: float) -> None:
    assert tiles_across(problem, rows) == pytest.approx(expected)


def test_routers_leave_a_few_rows_to_some_groups_and_many_to_others() -> None:
    """Tiles of as many rows as groups have in the mean: most groups need one tile or two."""
    few, many = (routed_tiles(Problem(rows * 8, 64, 64, 8), rows) / 8 for rows in (64, 256))
    assert 1.3 < many <= few < 1.6
    assert routed_tiles(Problem(64 * 8, 64, 64, 8), 4096) == 8
    assert routed_tiles(Problem(5, 64, 64, 128), 8) == 5  # groups that have rows


def records() -> list[KernelRecord]:
    return Registry().kernels("mixed_grouped_gemm")


@pytest.mark.parametrize(("tokens", "most", "least"), [(8, 32, 8), (16384, 256, 128)])
def test_the_model_takes_narrow_tiles_for_few_rows(tokens: int, most: int, least: int) -> None:
    """Each token chooses two of 8 experts."""
    problem = Problem(2 * tokens, 4096, 4096, 8)
    first = SELECTION.rank(records(), problem, H200)[0]
    assert least <= first.record.config["tile"][1] <= most


def test_a_stream_kernel_has_the_memory_of_a_dense_one() -> None:
    assert memory(STREAM) == dense_memory(STREAM)


def test_batch_invariant_mode_leaves_out_groups_of_warpgroups_and_stream_kernels() -> None:
    """They add up in another order."""
    problem = Problem(16, 4096, 4096, 8)
    for candidate in SELECTION.rank(records(), problem, H200):
        reason = SELECTION.misfit_invariant(candidate.tactic, candidate.record, problem)
        config = candidate.record.config
        assert (reason is None) == (config["k_groups"] == 1 and config["mainloop"] == "wgmma")


@pytest.mark.parametrize("cluster", ["1x2", "3x1", "2x2"])
def test_clusters_share_activations_alone(cluster: str) -> None:
    record = records()[0]
    tactic = replace(SELECTION.candidates(record, Problem(16, 4096, 4096, 8), H200)[0], cluster=cluster)
    reason = SELECTION.misfit_arguments(tactic, record)
    assert reason is not None
    assert cluster in reason
