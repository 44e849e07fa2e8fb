"""Selection of the kernels of `gemm` that are for few rows: what they take, and when they are the first."""

from __future__ import annotations

import pytest

from tilewright.architectures.device import H100, H200
from tilewright.declarations.tactics import Tactic
from tilewright.families.gemm import cost_stream
from tilewright.families.gemm.family import FAMILY
from tilewright.families.gemm.mainloops import mainloop_of
from tilewright.families.gemm.problem import Problem
from tilewright.libraries.registry import Registry

KERNELS = [record for record in Registry().kernels("gemm") if mainloop_of(record) == "stream"]
BF16 = next(record for record in KERNELS if record.name.endswith("bf16_f32_bf16_tn_16x8x64_stream_coop_swap"))


@pytest.mark.parametrize(
    ("problem", "says"),
    [
        (Problem(1, 4096, 4096), None),
        (Problem(8, 4097, 4096, alignment=2), None),  # D may lie anywhere
        (Problem(8, 4096, 4096, c=True, c_type="f32", bias=True, bias_type="f16"), None),
        (Problem(9, 4096, 4096), "8 rows at most, not 9"),
        (Problem(1, 16, 4096, batch=65535), None),
        (Problem(1, 16, 4096, batch=65536), "65535 matrices at most"),  # the grid has no more
        (Problem(1, 4096, 4100), "rows of 8200 bytes"),
        (Problem(1, 4096, 4096, layout="tt"), "its layout is tn"),
        (Problem(1, 4096, 4096, activation="relu"), "its activation is none"),
    ],
    ids=str,
)
def test_what_a_kernel_takes(problem: Problem, says: str | None) -> None:
    reason = FAMILY.misfit(BF16, problem)
    assert (reason is None) if says is None else (says in (reason or ""))


def test_k_is_split_where_there_is_enough_of_it() -> None:
    for k, splits in ((512, [1]), (2048, [1, 2, 3, 4]), (8192, list(range(1, 9)))):
        candidates = FAMILY.candidates(BF16, Problem(1, 512, k), H200)
        assert [tactic.splits for tactic in candidates] == splits
        assert all(FAMILY.misfit_arguments(tactic, BF16) is None for tactic in candidates)
    for tactic in (
        Tactic(BF16.name, splits=9),
        Tactic(BF16.name, splits=16),
        Tactic(BF16.name, cluster="2x1"),
    ):
        assert FAMILY.misfit_arguments(tactic, BF16) is not None


@pytest.mark.parametrize("types", [{}, {"a": "e4m3", "b": "e4m3"}])
def test_the_model_knows_bytes(types: dict[str, str]) -> None:
    for few, many in ((Problem(1, 4096, 4096, **types), Problem(1, 8192, 4096, **types)),):
        record = next(record for record in KERNELS if FAMILY.misfit(record, few) is None)
        times = [
            cost_stream.estimator(record, problem, H200)(Tactic(record.name)).seconds
            for problem in (few, many)
        ]
        assert times[0] > few.bytes / H200.memory_bandwidth
        assert times[1] > times[0]
        assert cost_stream.estimator(record, many, H100)(Tactic(record.name)).seconds > times[1]


@pytest.mark.parametrize(
    ("problem", "few"),
    [
        (Problem(1, 512, 2048), False),
        (Problem(1, 15, 1536), False),
        (Problem(2, 2048, 2048), False),
        (Problem(3, 1280, 1472), False),
        (Problem(1, 4096, 4096), False),
        (Problem(1, 6144, 1536, a="e4m3", b="e4m3"), False),
        (Problem(1, 14336, 4096), False),
        (Problem(16, 2048, 2048), False),
        (Problem(1, 16, 4096, batch=60000), True),
        (Problem(1, 16, 4096, batch=70000), False),
    ],
    ids=str,
)
def test_the_smallest_matrices_are_streamed(problem: Problem, few: bool) -> None:
    """Larger ones keep TMA busy enough that its kernels were the quicker ones, of 44 problems on all.

    A cluster splits k of a single matrix since it has a form for that (gemm/split_form.hpp), by the model.
    """
    first = FAMILY.rank(list(Registry().runnable("gemm", H200.capability)), problem, H200)[0]
    assert (mainloop_of(first.record) == "stream") == few, str(first.tactic)


def test_a_wave_of_few_thread_blocks_counts_as_one() -> None:
    """40 clusters where 34 run at once: 12.1 us were measured on an H200, 8.3 of the best split."""
    problem = Problem(3, 640, 30144, a="e4m3", b="e4m3", fast_accum=True)
    record = next(
        record
        for record in Registry().kernels("gemm")
        if "e4m3_e4m3_f32_bf16_tn_16x8x128_stream" in record.name
    )
    weigh = cost_stream.estimator(record, problem, H200)
    assert weigh(Tactic(record.name, splits=6)).waves == 2
    assert weigh(Tactic(record.name, splits=6)).seconds > 1.1 * weigh(Tactic(record.name, splits=5)).seconds
