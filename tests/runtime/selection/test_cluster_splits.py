"""Splits of k over clusters, of kernels of tcgen05: which tactics there are, what is refused and chosen."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tilewright.architectures.device import B200, THOR
from tilewright.declarations.tactics import Tactic
from tilewright.families.blockscaled_gemm.family import FAMILY as BLOCKSCALED
from tilewright.families.blockscaled_gemm.problem import Problem as BlockscaledProblem
from tilewright.families.gemm.family import FAMILY
from tilewright.families.gemm.problem import Problem
from tilewright.libraries.registry import Registry

RECORDS = Registry(libraries=lambda module: []).route("gemm", B200)
FEW = next(record for record in RECORDS if record.name.endswith("bf16_tn_128x32x64_1x1_tcgen05_1sm_swap_act"))
MANY = next(record for record in RECORDS if record.name.endswith("bf16_tn_128x256x64_2x1_tcgen05_2sm_act"))
PROBLEM = Problem(16, 2112, 7168)


def splits(problem: Problem) -> list[int]:
    return [tactic.splits for tactic in FAMILY.candidates(FEW, problem, B200)]


def test_ranges_of_two_tiles_at_least_run_at_once() -> None:
    """17 tiles of 128 columns on 148 SMs, and k tiles of 64."""
    assert splits(PROBLEM) == [1, 2, 4, 8]
    assert splits(replace(PROBLEM, k=256)) == [1, 2]
    assert splits(replace(PROBLEM, n=4224)) == [1, 2, 4]
    assert splits(replace(PROBLEM, batch=9)) == [1]
    assert [tactic.splits for tactic in FAMILY.candidates(MANY, PROBLEM, B200)] == [1]


@pytest.mark.parametrize(
    ("tactic", "reason"),
    [
        (Tactic(FEW.name, splits=3), "it splits k over a cluster, in 1, 2, 4, 8 parts"),
        (Tactic(MANY.name, splits=2), "only kernels of one thread block that swap operands do"),
        (Tactic(FEW.name, splits=2, decomposition="split_k"), "decomposition"),
    ],
)
def test_other_splits_are_refused(tactic: Tactic, reason: str) -> None:
    record = FEW if tactic.kernel == FEW.name else MANY
    assert reason in str(FAMILY.misfit_tactic(tactic, record, PROBLEM))


def test_a_range_has_a_tile_of_k() -> None:
    tactic = Tactic(FEW.name, splits=8)
    assert FAMILY.misfit_tactic(tactic, FEW, PROBLEM) is None
    assert "fewer than 8 tiles" in str(FAMILY.misfit_tactic(tactic, FEW, replace(PROBLEM, k=448)))


def test_few_columns_with_a_long_k_are_split() -> None:
    best = FAMILY.rank(RECORDS, PROBLEM, B200)
    whole = next(candidate for candidate in best if candidate.tactic.splits == 1)
    assert best[0].tactic.splits > 1
    assert whole.estimate.seconds > 1.3 * best[0].estimate.seconds
    assert FAMILY.rank(RECORDS, Problem(4096, 4096, 7168), B200)[0].tactic.splits == 1


def test_batch_invariant_mode_does_not_split() -> None:
    ranked = FAMILY.weigh(FAMILY.fitting(RECORDS, PROBLEM), PROBLEM, B200, batch_invariant=True)
    assert {candidate.tactic.splits for candidate in ranked} == {1}


def test_a_device_without_room_for_clusters_splits_less() -> None:
    assert FAMILY.misfit_device(Tactic(FEW.name, splits=8), FEW, THOR) is None
    small = THOR._replace(clusters=(4, 2, 1, 1, 0, 0, 0, 0))
    assert "runs no cluster of 8" in str(FAMILY.misfit_device(Tactic(FEW.name, splits=8), FEW, small))


def test_block_scaled_kernels_in_cute_dsl_split_too() -> None:
    problem = BlockscaledProblem(16, 2112, 7168)
    name = "blockscaled_gemm_sm100f_nvfp4_nvfp4_bf16_128x64x256_1x1_tcgen05_1sm_swap"
    records = Registry(libraries=lambda module: []).route("blockscaled_gemm", B200)
    record = next(record for record in records if record.name == name)
    tactics = BLOCKSCALED.candidates(record, problem, B200)
    assert [tactic.splits for tactic in tactics] == [1, 2, 4, 8]
    weigh = BLOCKSCALED.estimator(record, problem, B200)
    assert weigh is not None
    assert weigh(tactics[2]).seconds < weigh(tactics[0]).seconds
