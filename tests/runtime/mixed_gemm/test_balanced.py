"""Kernels of packed weights whose thread blocks multiply equally many stages of k."""

from __future__ import annotations

import pytest
import torch

import tilewright
from tilewright.architectures.device import H200
from tilewright.context import Context, use
from tilewright.declarations.tactics import Tactic
from tilewright.errors import ArgumentError
from tilewright.families.mixed_gemm import cost, cost_balanced
from tilewright.families.mixed_gemm.family import FAMILY
from tilewright.families.mixed_gemm.measuring import random_weight
from tilewright.families.mixed_gemm.problem import Problem
from tilewright.libraries.registry import Registry

RECORDS = {record.name: record for record in Registry().route("mixed_gemm", H200)}
BALANCED = RECORDS["mixed_gemm_sm90_bf16_int4_g128_192x48x128_balanced_early"]


@pytest.mark.parametrize(
    "problem", [Problem(1, 8, 32), Problem(64, 28672, 4096), Problem(500, 4480, 5120)], ids=str
)
def test_thread_blocks_and_pairs_of_them_compute_any_rows_and_columns(problem: Problem) -> None:
    clusters = ("",) if problem.n <= 128 else ("", "2x1")
    expected = tuple(Tactic(BALANCED.name, cluster=cluster) for cluster in clusters)
    assert FAMILY.candidates(BALANCED, problem, H200) == expected
    for tactic in expected:
        assert FAMILY.misfit_tactic(tactic, BALANCED, problem) is None


def test_an_activation_is_refused() -> None:
    problem = Problem(16, 4096, 4096, activation="silu")
    assert "silu" in str(FAMILY.misfit_extents(BALANCED, problem))
    chosen = FAMILY.rank([*RECORDS.values()], problem, H200)
    assert chosen
    assert not any("balanced" in candidate.record.name for candidate in chosen)


def test_batch_invariant_mode_has_none() -> None:
    reason = FAMILY.misfit_invariant(Tactic(BALANCED.name), BALANCED, Problem(16, 4096, 4096))
    assert "number of tiles" in str(reason)


@pytest.mark.parametrize("setting", ["splits=2", "cluster=4x1", "cluster=1x2"])
def test_a_launch_has_no_splits_and_no_larger_clusters(setting: str) -> None:
    tactic = Tactic.parse(f"{BALANCED.name}@{setting}")
    assert FAMILY.misfit_arguments(tactic, BALANCED) is not None


@pytest.mark.parametrize("cluster", ["", "2x1"])
def test_the_model_counts_stages_where_the_other_one_counts_waves(cluster: str) -> None:
    """198 tiles are two waves of 132 SMs, or 1.5 tiles of 28 stages for each."""
    name = "mixed_gemm_sm90_bf16_nvfp4_192x48x128"
    balanced, plain = f"{name}_balanced_early", f"{name}_early"
    problem = Problem(48, 37888, 3584, weight_format="nvfp4")
    even = cost_balanced.Balanced(RECORDS[balanced], problem, H200).terms(Tactic(balanced, cluster=cluster))
    waves = cost.Wgmma(RECORDS[plain], problem, H200).terms(Tactic(plain, cluster=cluster))
    assert (even.blocks, even.units) == (132, 42)
    assert even.math / waves.math == pytest.approx(42 / 56, rel=0.02)


@pytest.mark.parametrize(
    ("name", "clocks"),
    [
        ("mixed_gemm_sm90_bf16_mxfp4_128x256x64_balanced", 256 * cost_balanced.COLUMN_CLOCKS),
        ("mixed_gemm_sm90_bf16_mxfp4_128x128x128_balanced_early", 128 * cost_balanced.COLUMN_CLOCKS),
        ("mixed_gemm_sm90_bf16_mxfp4_256x32x128_balanced_early", cost_balanced.LEAVE_CLOCKS),
    ],
)
def test_sums_of_many_columns_cost_more(name: str, clocks: int) -> None:
    kernel = cost_balanced.Balanced(RECORDS[name], Problem(1024, 5120, 5120, weight_format="mxfp4"), H200)
    terms = kernel.terms(Tactic(name))
    others = cost_balanced.OTHER_CLOCKS * (kernel.model.k_tiles // terms.units)
    expected = cost.START_CLOCKS + kernel.model.epilogue + others + clocks
    assert terms.added * kernel.model.clock == pytest.approx(expected)


def test_the_model_has_no_more_thread_blocks_than_stages() -> None:
    terms = cost_balanced.Balanced(BALANCED, Problem(48, 192, 512), H200).terms(Tactic(BALANCED.name))
    assert (terms.blocks, terms.units) == (4, 1)


def test_it_is_chosen_where_the_last_wave_of_tiles_is_half_empty() -> None:
    first = FAMILY.rank([*RECORDS.values()], Problem(48, 37888, 3584), H200)[0]
    assert first.record.config["mainloop"] == "balanced"


@pytest.mark.parametrize(("row", "first"), [(16907, 0), (16912, 1), (16912, 8)])
def test_a_result_that_tma_cannot_store_is_written_by_another_kernel(
    mixed_host: Context, row: int, first: int
) -> None:
    """D is columns of a wider tensor, of `row` columns, from column `first` on."""
    balanced, problem = "host_mixed_int4_balanced", Problem(2, 16904, 1024)
    assert mixed_host.select(FAMILY, problem, H200).record.name == balanced
    generator = torch.Generator().manual_seed(0)
    a, packed = torch.randn((2, 1024), generator=generator).bfloat16(), random_weight(problem, generator)
    call = {"a": a, "weight": packed.weight, "scale": packed.scale, "n": problem.n}
    wide = torch.full((2, row), torch.nan, dtype=torch.bfloat16)
    out = wide[:, first : first + problem.n]
    with use(mixed_host):
        expected = tilewright.packed_gemm(**call, tactic=balanced)
        assert tilewright.packed_gemm(**call, out=out) is out
        if first % 8 or row % 8:
            with pytest.raises(ArgumentError):
                tilewright.packed_gemm(**call, out=out, tactic=balanced)
    assert torch.equal(out, expected)
    assert int(wide.isnan().sum()) == 2 * (row - problem.n)
