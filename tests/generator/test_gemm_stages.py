"""How many stages of a `gemm` kernel fit into shared memory, and what else takes room there."""

from __future__ import annotations

from dataclasses import replace

import pytest
from gemm_configurations import BF16, FAMILY, FEW_ROWS, FP8, LEAN, LEAN_FP8, LEAN_TURNS, PINGPONG, TF32, shape

from tilewright.configurations import lean_tiles
from tilewright.configurations.shapes import Tile
from tilewright.configurations.shared import HOPPER_SHARED_MEMORY
from tilewright.families.gemm.config import GemmConfig
from tilewright.families.gemm.memory import memory
from tilewright_generator.rules import verdicts


@pytest.mark.parametrize("base", [BF16, PINGPONG, FP8, TF32], ids=FAMILY.kernel_name)
def test_as_many_stages_are_legal_as_fit(base: GemmConfig) -> None:
    """From two up to as many as `auto` takes, and not one more."""
    auto = memory(base).stages
    legal = [stages for stages in range(2, 33) if not verdicts(FAMILY, replace(base, stages=stages))]
    assert legal == list(range(2, auto + 1))
    for stages in legal:
        assert memory(replace(base, stages=stages)).stages == stages
    assert memory(base).total <= HOPPER_SHARED_MEMORY < memory(replace(base, stages=auto + 1)).total


def test_the_barriers_that_order_ping_pong_warpgroups_take_memory() -> None:
    """Their 32 bytes decide this total, with which a unit of CUTLASS 4.2 compiled. They are lost in the
    alignment of every kernel that a spec lists."""
    config = replace(PINGPONG, tile=shape("128x8x64"), stages=2)
    assert memory(config).total == 38_272


@pytest.mark.parametrize("base", [BF16, LEAN, LEAN_FP8, LEAN_TURNS], ids=FAMILY.kernel_name)
def test_where_not_even_two_stages_fit_the_bytes_of_two_are_told(base: GemmConfig) -> None:
    """A message that compares two numbers is true."""
    for side in (256, 512, 1024):
        actual = memory(large := replace(base, tile=Tile(side, side, 2 * base.tile.k)))
        assert (actual.total > HOPPER_SHARED_MEMORY) == (actual.stages < 2), large


def test_a_stage_holds_whole_boxes_of_an_operand_without_k_contiguous() -> None:
    bytes_of_layout = {
        layout: lean_tiles.operand_bytes(replace(LEAN, tile=shape("128x144x64"), layout=layout))
        for layout in ("tn", "nn", "tt", "nt")
    }
    fine, boxed = (128 + 144) * 128, (128 + 192) * 128
    assert bytes_of_layout == {"tn": fine, "nn": fine, "tt": boxed, "nt": boxed}


def test_tiles_of_eight_columns_have_an_even_number_of_stages() -> None:
    """24, 48 and 98 stages; without the rule 24, 49 and 98 would fit."""
    for k, stages in ((64, 24), (32, 48), (16, 98)):
        assert memory(replace(FEW_ROWS, tile=Tile(64, 8, k))).stages == stages
