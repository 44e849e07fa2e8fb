"""Kernels of FP8 activations by packed weights whose thread blocks multiply equally many stages of k."""

from __future__ import annotations

import pytest
import torch
from mixed_fp8_bounds import elements_bound

from tilewright.architectures.device import H200
from tilewright.declarations.tactics import Tactic
from tilewright.families.mixed_fp8_gemm.cost import estimator
from tilewright.families.mixed_fp8_gemm.family import FAMILY
from tilewright.families.mixed_fp8_gemm.problem import Problem
from tilewright.libraries.registry import Registry

RECORDS = {record.name: record for record in Registry().route("mixed_fp8_gemm", H200)}
PLAIN = RECORDS["mixed_fp8_gemm_sm90_e4m3_int4_g128_bf16_128x256x128_parts_in_turn"]
BALANCED = RECORDS[f"{PLAIN.name}_balanced"]
FAST = RECORDS["mixed_fp8_gemm_sm90_e4m3_mxfp4_bf16_128x256x128_fastacc_quick_balanced"]


def test_many_rows_have_thread_blocks_and_pairs_of_them() -> None:
    problem = Problem(512, 10240, 8192)
    expected = tuple(Tactic(BALANCED.name, cluster=cluster) for cluster in ("", "2x1"))
    assert FAMILY.candidates(BALANCED, problem, H200) == expected
    assert all(FAMILY.misfit_tactic(tactic, BALANCED, problem) is None for tactic in expected)


@pytest.mark.parametrize(("rows", "count"), [(128, 0), (129, 2)])
def test_a_tile_that_is_half_empty_has_none(rows: int, count: int) -> None:
    assert len(FAMILY.candidates(BALANCED, Problem(rows, 10240, 8192), H200)) == count


@pytest.mark.parametrize("setting", ["splits=2", "cluster=4x1"])
def test_a_launch_has_no_splits_and_no_larger_clusters(setting: str) -> None:
    assert FAMILY.misfit_arguments(Tactic.parse(f"{BALANCED.name}@{setting}"), BALANCED) is not None
    assert FAMILY.misfit_arguments(Tactic.parse(f"{PLAIN.name}@{setting}"), PLAIN) is None


def test_activations_unaligned_results_and_other_sums_are_refused() -> None:
    assert "silu" in str(FAMILY.misfit_extents(BALANCED, Problem(512, 4096, 4096, activation="silu")))
    assert FAMILY.misfit_extents(PLAIN, Problem(512, 4096, 4096, activation="silu")) is None
    unaligned = Problem(512, 4096, 4096, alignment=8)  # D
    assert "16 bytes" in str(FAMILY.misfit_extents(BALANCED, unaligned))
    assert FAMILY.misfit_extents(PLAIN, unaligned) is None
    fast = Problem(512, 4096, 4096, weight_format="mxfp4", fast_accum=True)
    assert FAMILY.misfit_options(FAST, fast) is None
    assert FAMILY.misfit_options(FAST, Problem(512, 4096, 4096, weight_format="mxfp4")) is not None


def test_batch_invariant_mode_has_none() -> None:
    problem = Problem(512, 4096, 4096)
    assert "number of tiles" in str(FAMILY.misfit_invariant(Tactic(BALANCED.name), BALANCED, problem))
    assert FAMILY.misfit_invariant(Tactic(PLAIN.name), PLAIN, problem) is None


def test_the_model_counts_stages_where_the_other_one_counts_waves() -> None:
    """160 tiles are two waves of 132 SMs, or 77.6 stages of 64 for each: 78."""
    problem = Problem(512, 10240, 8192)
    even = estimator(BALANCED, problem, H200)(Tactic(BALANCED.name))
    waves = estimator(PLAIN, problem, H200)(Tactic(PLAIN.name))
    assert even.waves == waves.waves == 2
    clocks = H200.clock_hz * 0.843
    assert (waves.main_loop - even.main_loop) * clocks == pytest.approx((128 - 78) * 1459 + 3310, rel=0.01)


def test_it_is_chosen_where_the_last_wave_of_tiles_is_half_empty() -> None:
    chosen = FAMILY.rank([*RECORDS.values()], Problem(512, 10240, 8192), H200)[0].record
    assert chosen.config["balanced"]
    filled = FAMILY.rank([*RECORDS.values()], Problem(512, 8192, 8192), H200)[
        0
    ].record  # 128 tiles of 132 SMs
    assert not filled.config["balanced"]


def test_elements_lose_bits_where_scales_are_too_small() -> None:
    """Relative to the largest of 128 of k, or to one scale."""
    a = torch.ones(1, 256).to(torch.float8_e4m3fn)
    exponents = torch.tensor([[0, -16, -17, -40, -20, -20, -20, -20]])
    own = elements_bound(a, exponents)
    assert own.tolist() == [[2 * 32 * 2.0**-17]]  # none of the second 128
    assert elements_bound(a, exponents, 0.0).tolist() == [[6 * 32 * 2.0**-17]]
