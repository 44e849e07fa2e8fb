"""Problems that benchmarks draw at random."""

from __future__ import annotations

import itertools

import pytest
from benchmarks.lib import random_problems
from benchmarks.lib.random_problems import KINDS, Einsum, text_of

from tilewright.families.gemm.family import FAMILY as GEMM
from tilewright.families.gemm.problem import Problem as GemmProblem
from tilewright.families.grouped_gemm.family import FAMILY as GROUPED
from tilewright.families.grouped_gemm.problem import Problem as GroupedProblem
from tilewright.families.reduced_gemm.family import FAMILY as REDUCED
from tilewright.families.reduced_gemm.problem import Problem as ReducedProblem
from tilewright.libraries.registry import Registry

COUNT = 150
FAMILIES = {GemmProblem: GEMM, GroupedProblem: GROUPED, ReducedProblem: REDUCED}


def drawn(kind: str, seed: int = 1, count: int = COUNT) -> list[random_problems.Drawn]:
    return list(itertools.islice(KINDS[kind](seed), count))


@pytest.mark.parametrize("kind", KINDS)
def test_a_seed_always_draws_the_same(kind: str) -> None:
    assert drawn(kind) == drawn(kind)
    assert drawn(kind) != drawn(kind, seed=2)
    assert len(set(map(text_of, drawn(kind)))) > 0.9 * COUNT


def test_kinds_draw_independently() -> None:
    columns = [[(p.n, p.k) for p in drawn(kind)] for kind in ("scaled", "contiguous_fp8", "masked_fp8")]  # type: ignore[union-attr]
    assert columns[0] != columns[1] != columns[2]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "einsum"])
def test_every_problem_has_a_kernel_on_hopper(kind: str) -> None:
    problems = drawn(kind, count=40)
    family = FAMILIES[type(problems[0])]
    records = [
        record for record in Registry().kernels(family.name) if record.name.startswith(f"{family.name}_sm90")
    ]
    assert records
    assert [str(p) for p in problems if not family.fitting(records, p)] == []  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", ["scaled", "contiguous_fp8", "masked_bf16"])
def test_extents_are_those_that_models_have(kind: str) -> None:
    for problem in drawn(kind):
        assert isinstance(problem, GroupedProblem)
        assert problem.n % 64 == problem.k % 128 == 0
        assert 512 <= problem.n <= 16384
        assert 512 <= problem.k <= 16384
        assert problem.grouping != "row_index" or problem.m % (problem.groups * 128) == 0
        assert problem.grouping != "rows_valid" or 1.3 * problem.expected_m <= problem.m


def test_rows_that_a_caller_chooses_are_no_power_of_two() -> None:
    for kind in ("scaled", "masked_fp8", "masked_bf16", "einsum"):
        for problem in drawn(kind):
            rows = (
                problem.b if isinstance(problem, Einsum) else getattr(problem, "expected_m", 0) or problem.m
            )
            assert rows.bit_count() > 1


def test_gradients_have_k_of_whole_blocks_in_each_group() -> None:
    for kind in ("k_grouped_fp8", "k_grouped_bf16"):
        for problem in drawn(kind):
            assert isinstance(problem, GroupedProblem)
            assert problem.c
            assert problem.d == "f32"
            assert problem.k % (128 * problem.groups) == 0


def test_wide_draws_have_all_layouts_and_odd_multiples_of_8() -> None:
    problems = [problem for problem in drawn("bf16_wide") if isinstance(problem, GemmProblem)]
    assert {problem.layout for problem in problems} == {"tn", "tt", "nn", "nt"}
    assert all(problem.n % 8 == problem.k % 8 == 0 for problem in problems)
    assert all(problem.m % 8 == 0 for problem in problems if problem.layout[0] == "n")
    assert sum(problem.n % 64 != 0 for problem in problems) > COUNT // 2
    assert {problem.m < 64 for problem in problems} == {True, False}


def test_an_einsum_knows_the_extents_of_its_terms() -> None:
    einsum = Einsum("bhr,hdr->bhd", b=2, h=3, r=64, d=128)
    assert (einsum.shape("bhr"), einsum.shape("hdr")) == ((2, 3, 64), (3, 128, 64))
    assert einsum.bytes == 2 * (2 * 3 * 64 + 3 * 128 * 64 + 2 * 3 * 128)


def test_shapes_can_be_listed_for_dense_products_alone() -> None:
    (scaled,) = random_problems.listed("scaled", ["128x4096x7168"])
    assert (scaled.m, scaled.n, scaled.k, scaled.scales) == (128, 4096, 7168, "128x128")  # type: ignore[union-attr]
    with pytest.raises(ValueError, match="masked_fp8 has no list of shapes"):
        random_problems.listed("masked_fp8", ["1x2x3"])
