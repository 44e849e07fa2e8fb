"""A k that batch-invariant mode splits: every m adds the same ranges in the same order.

`order` says in which order a tactic adds products along k, from the device code's own arithmetic
(product_params.hpp, cluster_reduction.hpp, parts.hpp), not from the rule that is tested. The kernels are
those of the committed tables; none is built.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from typing import Any

import pytest

from tilewright.architectures.device import H100, H200, DeviceProperties
from tilewright.base import paths
from tilewright.context import Context
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic
from tilewright.families.gemm import fixed_splits
from tilewright.families.gemm.family import FAMILY
from tilewright.families.gemm.fixed_splits import splits_of
from tilewright.families.gemm.mainloops import mainloop_of
from tilewright.families.gemm.problem import Problem
from tilewright.libraries.registry import Registry
from tilewright.tools.explaining import explain

FP8: dict[str, Any] = {"a": "e4m3", "b": "e4m3"}
# 60 values: around the rows of tiles and clusters, and between.
ROWS = (
    *range(1, 10),
    *(15, 16, 17, 24, 31, 33, 40, 48, 63, 64, 65, 80, 96, 100, 112, 127, 128, 129, 145, 160, 192, 200, 224),
    *(255, 257, 300, 320, 350, 400, 450, 513, 600, 640, 700, 777, 900, 1000, 1025, 1200, 1500, 1700, 1999),
    *(2048, 2500, 3000, 3500, 4097, 5000, 6000, 7000, 8192),
)
PRODUCTS = [  # with the number of ranges
    (Problem(1, 256, 22400), 4),
    (Problem(1, 512, 16384, d="f32"), 4),
    (Problem(1, 1024, 21504), 4),
    (Problem(1, 768, 19136), 3),
    (Problem(1, 1344, 24704), 3),
    (Problem(1, 1472, 18304, a="f16", b="f16", d="f16"), 2),
    (Problem(1, 576, 6976, layout="tt"), 2),
    (Problem(1, 640, 12352, **FP8), 2),
    (Problem(1, 1024, 29632, fast_accum=True, **FP8), 2),
    (Problem(1, 2112, 7168), 1),
    (Problem(1, 4096, 14336), 1),
    (Problem(1, 576, 8128, **FP8), 1),
]


@pytest.fixture(scope="module")
def context() -> Context:
    return Context(Registry(libraries=lambda module: []), H200, batch_invariant=True)


def order(tactic: Tactic, record: KernelRecord, k: int) -> Any:
    """The additions of a tactic: a range of k is (begin, end), a sum a list of what is added in turn."""
    tile = record.config["tile"][2]
    tiles = -(-k // tile)
    each, larger = divmod(tiles, tactic.splits)
    begins = [split * each + min(split, larger) for split in range(tactic.splits + 1)]
    ranges = [(begin * tile, min(end * tile, k)) for begin, end in itertools.pairwise(begins)]
    if tactic.splits == 1 or tactic.decomposition != "split_k":
        return ranges
    shares = 1 if tactic.splits <= 4 else 2 if tactic.splits <= 8 else 4
    length = -(-tactic.splits // shares)
    grouped = [ranges[first : first + length] for first in range(0, tactic.splits, length)]
    return grouped if shares > 1 else grouped[0]


@pytest.mark.parametrize(("product", "splits"), PRODUCTS, ids=str)
def test_every_m_adds_in_one_order(context: Context, product: Problem, splits: int) -> None:
    orders, kernels = [], set()
    for m in ROWS:
        problem = replace(product, m=m)
        tactic, record, *_ = context.select(FAMILY, problem, H200)
        assert mainloop_of(record) == "lean"
        assert FAMILY.misfit_tactic(tactic, record, problem) is None
        orders.append(order(tactic, record, problem.k))
        kernels.add(tactic.kernel)
        assert record.config["fast_accum"] == problem.fast_accum
    assert len(ROWS) == 60
    assert len(orders[0]) == splits
    assert all(each == orders[0] for each in orders)
    assert len(kernels) > 2  # otherwise nothing was compared


def test_what_counts_adds_in_the_order_of_what_is_chosen(context: Context) -> None:
    """All tactics that a call may name or a tuned file may hold, not only the candidates."""
    records = context.registry.route("gemm", H200)
    for problem in (Problem(700, 256, 22400), Problem(700, 768, 19136), Problem(90, 1024, 29632, **FP8)):
        choice = context.select(FAMILY, problem, H200)
        expected, counted, refused = order(choice.tactic, choice.record, problem.k), 0, 0
        for record in FAMILY.fitting(records, problem):
            if mainloop_of(record) != "lean":
                continue
            for splits in range(1, 17):
                for decomposition in ("heuristic", "split_k"):
                    tactic = Tactic(record.name, splits=splits, decomposition=decomposition)
                    if FAMILY.misfit_tactic(tactic, record, problem) is not None:
                        continue
                    if FAMILY.misfit_invariant(tactic, record, problem) is None:
                        counted += 1
                        assert order(tactic, record, problem.k) == expected
                    else:
                        refused += 1
        assert min(counted, refused) > 20


def test_candidates_count_and_are_all_that_count(context: Context) -> None:
    """Some kernels have none: where their k tiles do not meet the others'."""
    problem, without = Problem(90, 256, 22400), 0
    for record in FAMILY.fitting(context.registry.route("gemm", H200), problem):
        tactics = FAMILY.invariant_candidates(record, problem, H200)
        without += not tactics
        for tactic in tactics:
            assert FAMILY.misfit_invariant(tactic, record, problem) is None
            assert FAMILY.misfit_tactic(tactic, record, problem) is None
        if mainloop_of(record) == "lean" and record.config["tile"][2] == 64:
            plain = {(tactic.splits, tactic.decomposition) for tactic in tactics}
            in_cluster = {(4, "heuristic")} if record.facts["splits"] else set()
            assert plain == in_cluster | {(4, "split_k")}
    assert without > 10


@pytest.mark.parametrize(
    ("n", "k", "splits"),
    [
        *((1024, 16384, 4), (1025, 16384, 2), (1024, 16383, 2), (1024, 16256, 3)),
        *((256, 8192, 4), (257, 8192, 2), (256, 8064, 2)),
        *((1365, 12288, 3), (1366, 12288, 2), (1365, 12160, 2)),
        *((2048, 8192, 2), (2049, 8192, 1), (2048, 8064, 1)),
        *((1024, 6144, 2), (1025, 6144, 1), (1024, 6016, 1), (1, 128, 1), (0, 32768, 4)),
        # 150, 129, 130 and 131 blocks of 256 bytes
        *((1024, 19200, 3), (1024, 16512, 3), (1024, 16640, 2), (1024, 16768, 4)),
    ],
)
def test_the_number_of_ranges(n: int, k: int, splits: int) -> None:
    for m in (0, 1, 77, 8192):
        assert splits_of(Problem(m, n, k)) == splits
        assert splits_of(Problem(m, n, 2 * k, **FP8)) == splits
    assert splits_of(Problem(1, n, k, batch=2)) == 1


def test_where_ranges_begin() -> None:
    assert fixed_splits.cuts(22400, 64, 4) == (5632, 11264, 16832)
    assert fixed_splits.cuts(22400, 128, 4) == (5632, 11264, 16896)
    assert fixed_splits.cuts(16384, 64, 4) == fixed_splits.cuts(16384, 128, 4) == (4096, 8192, 12288)
    assert fixed_splits.cuts(100, 64, 1) == ()


def test_the_second_kernel_adds_as_many_ranges_in_turn() -> None:
    header = (paths.include_dir() / "tilewright/sm90/parts_params.hpp").read_text()
    at_once = re.search(r"kCombineAtOnce = (\d+);", header)
    assert at_once is not None
    assert int(at_once[1]) == fixed_splits.MOST_SPLITS
    assert "return parts <= kCombineAtOnce ? 1 :" in header
    assert max(limit.splits for limit in fixed_splits.LIMITS) == fixed_splits.MOST_SPLITS


def test_many_sums_stay_in_clusters(context: Context) -> None:
    """A workspace of 2**26 bytes at most: 4 ranges of 1,024 columns and 4,096 rows."""
    record = context.registry.table_of(name := "gemm_sm90_bf16_bf16_f32_bf16_tn_128x128x64_lean_coop")[name]
    for m, expected in ((4096, {"heuristic", "split_k"}), (4097, {"heuristic"})):
        tactics = FAMILY.invariant_candidates(record, Problem(m, 1024, 16384), H200)
        assert {tactic.decomposition for tactic in tactics} == expected


# An H100 SXM and one with PCIe, an H20, and a slice of an H200 that has no room for clusters of five.
OTHER_GPUS = (
    H100,
    H100._replace(sm_count=114, clusters=()),
    H200._replace(sm_count=78, clusters=()),
    H200._replace(sm_count=16, clusters=(16, 8, 4, 2, 0, 0, 0, 0)),
)


@pytest.mark.parametrize("other", OTHER_GPUS, ids=lambda gpu: f"{gpu.name}, {gpu.sm_count} SMs")
def test_the_ranges_do_not_depend_on_the_gpu(context: Context, other: DeviceProperties) -> None:
    on_other = Context(context.registry, other, batch_invariant=True)
    for problem in (Problem(90, 1024, 21504), Problem(3, 512, 16384), Problem(3000, 768, 19136)):
        tactics = [each.select(FAMILY, problem, gpu) for each, gpu in ((context, H200), (on_other, other))]
        first, second = (order(tactic, record, problem.k) for tactic, record, *_ in tactics)
        assert first == second


def test_refusals_say_what_differs(context: Context) -> None:
    name = "gemm_sm90_bf16_bf16_f32_bf16_tn_64x16x128_lean_coop"
    record, problem = context.registry.table_of(name)[name], Problem(90, 256, 22400)

    def refusal(splits: int) -> str | None:
        return FAMILY.misfit_invariant(Tactic(name, splits=splits), record, problem)

    expected = "and for n of 256 and k of 22400 every m has 4"
    assert refusal(1) == f"it adds the sums of 1 range of k, {expected}"
    assert refusal(2) == f"it adds the sums of 2 ranges of k, {expected}"
    begins = "begin at 5632, 11264 and 16896, those of other kernels at 5632, 11264 and 16832"
    assert refusal(4) == f"its ranges of k {begins}"


def test_explain_says_how_k_is_split(context: Context) -> None:
    explanation = explain(context, FAMILY, Problem(90, 1024, 21504), H200)
    order_text = (
        "every m has 4 ranges of k, which begin at 0, 5376, 10752 and 16128 and are added in this order"
    )
    assert explanation.order == explanation.as_json()["order"] == order_text
    assert f"Batch-invariant mode splits k: {order_text}." in list(explanation.lines())
    assert {row.tactic.splits for row in explanation.rows} == {4}
    whole = explain(context, FAMILY, Problem(90, 4096, 4096), H200)
    assert whole.order == ""
    assert not any("splits k" in line for line in whole.lines())
    assert explain(context.sibling(), FAMILY, Problem(90, 1024, 21504), H200).order == ""
