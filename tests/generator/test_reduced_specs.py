"""What the rules of `reduced_gemm` reject, with which numbers, and what its specs make."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from command_line import ROOT
from rule_checks import Rejected, check_rejected

from tilewright.configurations.shapes import Tile
from tilewright.families.reduced_gemm.config import ReducedConfig
from tilewright.families.reduced_gemm.rules import RULES
from tilewright_generator import families
from tilewright_generator.rules import verdicts

FAMILY = families.get("reduced_gemm")
WGMMA = ReducedConfig("sm_90a", "bf16", Tile(128, 128, 64))
SYNC = ReducedConfig("sm_120f", "f16", Tile(128, 128, 64))

# A neighbour of a legal one; the rule that alone rejects it; what its reason says; and what makes it legal.
REJECTED: list[Rejected] = [
    (WGMMA, {"tile": Tile(128, 128, 128)}, "depth", "64 of k, not 128", {"tile": Tile(128, 128, 64)}),
    (WGMMA, {"tile": Tile(64, 128, 64)}, "tile_extents", "not 64", {"tile": Tile(192, 128, 64)}),
    (WGMMA, {"tile": Tile(128, 124, 64)}, "tile_extents", "of 8 up to 256", {"tile": Tile(128, 120, 64)}),
    (WGMMA, {"tile": Tile(192, 120, 64)}, "tile_extents", "of 16 up to 256", {"tile": Tile(192, 112, 64)}),
    (WGMMA, {"tile": Tile(128, 264, 64)}, "tile_extents", "not 264", {"tile": Tile(128, 256, 64)}),
    (WGMMA, {"tile": Tile(256, 184, 64)}, "registers", "184 accum", {"tile": Tile(256, 176, 64)}),
    (SYNC, {"tile": Tile(256, 136, 64)}, "registers", "136 accum", {"tile": Tile(256, 128, 64)}),
]


@pytest.mark.parametrize("one", [WGMMA, SYNC], ids=FAMILY.kernel_name)
def test_the_usual_ones_are_accepted(one: ReducedConfig) -> None:
    assert verdicts(FAMILY, one) == []


@pytest.mark.parametrize("one", REJECTED, ids=lambda one: one[2])
def test_what_is_rejected(one: Rejected) -> None:
    check_rejected(FAMILY, one)


def test_tiles_beyond_shared_memory_have_too_many_sums_as_well() -> None:
    """So the rule of shared memory never rejects alone; it says a second reason."""
    wide = replace(SYNC, tile=Tile(256, 144, 64))
    reasons = {verdict.rule: verdict.reason for verdict in verdicts(FAMILY, wide)}
    assert reasons.keys() == {"registers", "shared_memory"}
    assert "256x144x64 are more than the 101376 B of sm_120f" in reasons["shared_memory"]
    assert {rule for _, _, rule, _, _ in REJECTED} | {"shared_memory"} == {rule.name for rule in RULES}


@pytest.mark.parametrize(
    ("module", "most"), [("sm90_reduced_gemm", 232_448), ("sm120_reduced_gemm", 101_376)]
)
def test_committed_kernels_fill_their_shared_memory(module: str, most: int) -> None:
    """A stage holds 64 of k of 16 bits of each row and column of a tile, and two barriers."""
    rows = json.loads((ROOT / "generated" / module / "table.json").read_text(encoding="utf-8"))["kernels"]
    for row in rows:
        m, n, _ = row["config"]["tile"]
        stage = (m + n) * 64 * 2 + 2 * 8
        assert (row["facts"]["stages"], row["facts"]["smem_bytes"]) == (most // stage, most // stage * stage)
