"""What the rules of `blockscaled_grouped_gemm` reject, what its spec makes, and how its model ranks."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from command_line import ROOT
from rule_checks import Rejected, check_every_rule_is_shown, check_rejected

from tilewright.architectures.device import B200, B300, THOR, DeviceProperties
from tilewright.configurations.shapes import Tile
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic
from tilewright.families.blockscaled_gemm.memory import memory_of_groups
from tilewright.families.blockscaled_grouped_gemm.config import BlockscaledGroupedGemmConfig, product
from tilewright.families.blockscaled_grouped_gemm.cost import Groups, batch_of
from tilewright.families.blockscaled_grouped_gemm.family import FAMILY as SELECTION
from tilewright.families.blockscaled_grouped_gemm.problem import OUTPUTS, Problem
from tilewright.families.blockscaled_grouped_gemm.rules import RULES
from tilewright.libraries.registry import Registry
from tilewright_generator import families
from tilewright_generator.rules import verdicts

FAMILY = families.get("blockscaled_grouped_gemm")
TABLE = ROOT / "generated/sm100_blockscaled_grouped_gemm/table.json"
ROWS = json.loads(TABLE.read_text(encoding="utf-8"))["kernels"]
MANY = BlockscaledGroupedGemmConfig("sm_100f", "nvfp4", "nvfp4", "bf16", Tile(128, 128, 256), "2sm")
MIXED = replace(MANY, a="mxfp8", b="mxfp4", tile=Tile(128, 64, 128), schedule="1sm", swap_ab=True)

# A neighbour of a legal one; the rule that alone rejects it; what its reason says; and what makes it legal.
REJECTED: list[Rejected] = [
    (MANY, {"b": "mxfp4"}, "formats", "nvfp4 by mxfp4", {"a": "mxfp4"}),
    (MANY, {"tile": Tile(64, 128, 256)}, "tile_sides", "not 64", {"tile": Tile(128, 192, 256)}),
    (MIXED, {"tile": Tile(128, 64, 256)}, "tile_depth", "128, not 256", {"a": "mxfp4"}),
    (MANY, {"stages": 9}, "shared_memory", "9 stages", {"stages": 4}),
]


@pytest.mark.parametrize("one", [MANY, MIXED], ids=FAMILY.kernel_name)
def test_the_usual_ones_are_accepted(one: BlockscaledGroupedGemmConfig) -> None:
    assert verdicts(FAMILY, one) == []


@pytest.mark.parametrize("one", REJECTED, ids=lambda one: one[2])
def test_what_is_rejected(one: Rejected) -> None:
    check_rejected(FAMILY, one)


def test_every_rule_is_shown() -> None:
    check_every_rule_is_shown(REJECTED, RULES)


def test_tiles_of_k_768_have_another_collective() -> None:
    (reason,) = verdicts(FAMILY, replace(MANY, arch="sm_103a", tile=Tile(128, 128, 768)))
    assert "another collective" in str(reason)


def test_auto_takes_the_stages_that_fit() -> None:
    stages, total = memory_of_groups(product(MANY))
    assert total <= 232_448
    assert memory_of_groups(product(replace(MANY, stages=stages + 1))).total > 232_448


def test_every_pair_of_formats_has_a_tile_for_few_and_for_many_rows() -> None:
    for pair in OUTPUTS:
        rows = [row["config"] for row in ROWS if (row["config"]["a"], row["config"]["b"]) == pair]
        assert {config["swap_ab"] for config in rows} == {False, True}, pair


def records(device: DeviceProperties) -> list[KernelRecord]:
    return Registry().route("blockscaled_grouped_gemm", device)


@pytest.mark.parametrize("device", [B200, B300], ids=["b200", "b300"])
@pytest.mark.parametrize(("rows", "swapped"), [(4, True), (2048, False)])
def test_few_rows_of_a_group_exchange_the_operands(
    device: DeviceProperties, rows: int, swapped: bool
) -> None:
    problem = Problem(8 * rows, 4096, 7168, 8, row_alignment=128, expected_m=rows)
    first = SELECTION.rank(records(device), problem, device)[0]
    assert first.record.config["swap_ab"] == swapped


@pytest.mark.parametrize("pair", [pair for pair in OUTPUTS if "mxfp8_e5m2" not in pair], ids="x".join)
def test_thor_multiplies_every_pair(pair: tuple[str, str]) -> None:
    """E5M2 apart, which activations seldom have."""
    problem = Problem(64, 4096, 7168, 8, a=pair[0], b=pair[1], row_alignment=128, expected_m=8)
    assert SELECTION.rank(records(THOR), problem, THOR)[0].record.arch == "sm_110a"


def test_the_model_counts_lists_and_changes_of_group() -> None:
    """Beside the model of a batch of products."""
    problem = Problem(1024, 4096, 7168, 8, grouping="rows_valid", expected_m=100)
    assert batch_of(problem).m == 100
    assert batch_of(Problem(1000, 64, 64, 8)).m == 125
    record = next(record for record in records(B200) if record.config["d"] == "bf16")
    tactic = Tactic(record.name, cluster="2x1")
    with_lists = Groups(record, problem, B200)
    assert with_lists.seconds >= 2 * Groups.LAUNCH_SECONDS
    longer = Groups(record, replace(problem, groups=16), B200).weigh(tactic).seconds
    assert longer > with_lists.weigh(tactic).seconds


@pytest.mark.parametrize(
    ("problem", "reason"),
    [
        (Problem(1000, 64, 256, 2, row_alignment=64), "multiples of 64"),
        (Problem(1000, 64, 264, 2), "264 elements"),
        (Problem(1000, 60, 256, 2), "60 elements"),
    ],
)
def test_what_no_kernel_takes(problem: Problem, reason: str) -> None:
    record = next(r for r in records(B200) if (r.config["a"], r.config["d"]) == ("nvfp4", "bf16"))
    assert reason in str(SELECTION.misfit_extents(record, problem))
    own = replace(problem, row_alignment=64, scale_begins=True, n=64, k=256)
    assert SELECTION.misfit_extents(record, own) is None


@pytest.mark.parametrize(
    ("cluster", "reason"), [("8x1", "more than 4"), ("1x2", "even"), ("3x1", "power of two"), ("4x2", "None")]
)
def test_clusters_of_pairs(cluster: str, reason: str) -> None:
    record = next(record for record in records(B200) if record.config["schedule"] == "2sm")
    assert reason in str(SELECTION.misfit_arguments(Tactic(record.name, cluster=cluster), record))
