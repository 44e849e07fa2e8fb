"""What the rules of `hc_prenorm` reject, with which numbers, and what its spec makes."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from command_line import ROOT
from rule_checks import Rejected, check_every_rule_is_shown, check_rejected

from tilewright.configurations.shapes import Tile
from tilewright.families.hc_prenorm.config import PrenormConfig
from tilewright.families.hc_prenorm.memory import memory
from tilewright.families.hc_prenorm.rules import RULES
from tilewright_generator import families
from tilewright_generator.rules import verdicts

FAMILY = families.get("hc_prenorm")
ROWS = json.loads((ROOT / "generated/hc_prenorm/table.json").read_text(encoding="utf-8"))["kernels"]
WGMMA = PrenormConfig("sm_90a", Tile(128, 24, 64), "wgmma")
SYNC = PrenormConfig("sm_120f", Tile(64, 24, 64), warp_rows=32)

# A neighbour of a legal one; the rule that alone rejects it; what its reason says; and what makes it legal.
REJECTED: list[Rejected] = [
    (SYNC, {"tile": Tile(64, 24, 128)}, "depth", "not 128", {"tile": Tile(64, 24, 64)}),
    (SYNC, {"tile": Tile(64, 20, 64)}, "tile_extents", "not 20", {"tile": Tile(64, 16, 64)}),
    (WGMMA, {"tile": Tile(128, 40, 64)}, "tile_extents", "not 40", {"mma": "sync"}),
    (WGMMA, {"tile": Tile(320, 24, 64)}, "tile_extents", "not 320", {"tile": Tile(256, 24, 64)}),
    (WGMMA, {"warp_rows": 32}, "rows_of_warps", "not 32", {"mma": "sync"}),
    (WGMMA, {"tile": Tile(96, 24, 64)}, "rows_of_warps", "96", {"mma": "sync"}),
    (SYNC, {"tile": Tile(48, 24, 64)}, "rows_of_warps", "48", {"warp_rows": 16}),
    (SYNC, {"mma": "wgmma", "warp_rows": 16}, "wgmma_arch", "sm_120f", {"arch": "sm_90a"}),
    (SYNC, {"tile": Tile(32, 72, 64)}, "registers", "72 sums", {"warp_rows": 16}),
    (SYNC, {"stages": 8}, "shared_memory", "101,376", {"stages": 7}),
    (SYNC, {"tile": Tile(256, 120, 64), "warp_rows": 16}, "shared_memory", "two stages", {"arch": "sm_100f"}),
]


@pytest.mark.parametrize("one", [WGMMA, SYNC], ids=FAMILY.kernel_name)
def test_the_usual_ones_are_accepted(one: PrenormConfig) -> None:
    assert verdicts(FAMILY, one) == []


@pytest.mark.parametrize("one", REJECTED, ids=lambda one: one[2])
def test_what_is_rejected(one: Rejected) -> None:
    check_rejected(FAMILY, one)


def test_every_rule_is_shown() -> None:
    check_every_rule_is_shown(REJECTED, RULES)


def test_shared_memory_is_as_kernel_hpp_lays_it_out() -> None:
    a, b, barriers = 128 * 64 * 2, 24 * 64 * 4, 2 * 8
    assert memory(replace(WGMMA, stages=5)) == (5, 5 * (a + b + barriers))


def test_auto_takes_what_fits() -> None:
    for config in (WGMMA, SYNC):
        stages, total = memory(config)
        limit = 232_448 if config is WGMMA else 101_376
        assert total <= limit < memory(replace(config, stages=stages + 1))[1]


def test_names_tell_kernels_apart() -> None:
    changes = [{}, {"mma": "sync"}, {"mma": "sync", "warp_rows": 32}, {"stages": 3}, {"pdl": False}]
    assert len({FAMILY.kernel_name(replace(WGMMA, **change)) for change in changes}) == len(changes)


def test_every_architecture_has_a_kernel_for_every_n() -> None:
    for arch in ("sm_90a", "sm_100f", "sm_120f"):
        columns = {row["config"]["tile"][1] for row in ROWS if row["arch"] == arch}
        assert 24 in columns
        assert max(columns) == 128
