"""Selection among the lean kernels of `gemm`: their tactics, their model, and what they take."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from tilewright.device import H100, H200
from tilewright.ops.common.tactics import Tactic
from tilewright.ops.gemm import cost_lean, lean
from tilewright.ops.gemm.family import FAMILY
from tilewright.ops.gemm.problem import ACTIVATIONS, OUTPUTS, Problem
from tilewright.registry import Registry
from tilewright.table import KernelRecord

KERNELS = [record for record in Registry().kernels("gemm") if lean.is_lean(record)]
WIDE = "gemm_sm90_bf16_bf16_f32_bf16_tn_128x128x64_lean_coop"
TURNS = "gemm_sm90_bf16_bf16_f32_bf16_tn_128x128x64_lean_pingpong"
BY_NAME = {record.name: record for record in KERNELS}


@pytest.mark.parametrize(
    ("tactic", "says"),
    [
        (Tactic(WIDE), None),
        (Tactic(WIDE, cluster="2x2", splits=2, raster="along_n", swizzle=8), None),
        (Tactic(WIDE, splits=8), None),
        (Tactic(WIDE, splits=3), "2, 4 or 8 parts, not 3"),
        (Tactic(WIDE, cluster="4x1", splits=4), "16 thread blocks"),
        (Tactic(WIDE, decomposition="split_k", splits=2), "no decomposition"),
        (Tactic(WIDE, cluster="2x1", fallback="1x1"), "no fallback"),
        (Tactic(WIDE, cluster="3x1"), "power of two"),
        (Tactic(TURNS, cluster="1x4"), None),
        (Tactic(TURNS, splits=2), "do not fit into its stages"),
    ],
    ids=str,
)
def test_a_tactic_is_legal_or_says_why_not(tactic: Tactic, says: str | None) -> None:
    reason = FAMILY.misfit_arguments(tactic, BY_NAME[tactic.kernel])
    assert (reason is None) if says is None else (says in (reason or ""))


def problems() -> Iterator[Problem]:
    for m, n, k in ((3, 512, 512), (100, 5120, 2880), (384, 6144, 4096), (4100, 4096, 64), (1, 8, 16)):
        yield Problem(m, n, k)
        yield Problem(m, n, k, a="e4m3", b="e4m3", fast_accum=True)


def test_what_is_weighed_is_legal_and_estimated() -> None:
    for problem in problems():
        fitting = FAMILY.fitting(KERNELS, problem)
        assert fitting
        for record in fitting:
            weigh = cost_lean.estimator(record, problem, H200)
            tactics = list(FAMILY.candidates(record, problem))
            assert Tactic(record.name) in tactics
            for tactic in tactics:
                assert FAMILY.misfit_tactic(tactic, record, problem) is None
                assert 1e-6 < weigh(tactic).seconds < 1e-2


def options(a: str, b: str) -> Iterator[Problem]:
    """Every option set of the op, for operands of these types."""
    fast = (False, True) if a in ("e4m3", "e5m2") else (False,)
    for d, c, bias, activation, accumulates in itertools.product(
        OUTPUTS[a, b], (False, True), (False, True), ACTIVATIONS, fast
    ):
        yield Problem(
            200, 1024, 512, 1, a, b, d, "tn", c=c, bias=bias, activation=activation, fast_accum=accumulates
        )


@pytest.mark.parametrize(("a", "b"), [pair for pair in OUTPUTS if pair[0] not in ("tf32", "s8")])
def test_every_option_set_has_a_kernel(a: str, b: str) -> None:
    """Also with exact sums where the call would allow fast ones: then either will do."""
    lacking = [str(problem) for problem in options(a, b) if not FAMILY.fitting(KERNELS, problem)]
    assert lacking == []


def first(problem: Problem) -> tuple[Tactic, KernelRecord]:
    one = FAMILY.rank(Registry().kernels("gemm"), problem, H200)[0]
    return one.tactic, one.record


def waves(tactic: Tactic, record: KernelRecord, problem: Problem) -> float:
    """Tiles for each of 132 SMs."""
    tile_m, tile_n, _ = record.config["tile"]
    rows, columns = (problem.n, problem.m) if record.config["swap_ab"] else (problem.m, problem.n)
    return -(-rows // tile_m) * -(-columns // tile_n) * tactic.splits / 132


@pytest.mark.parametrize(("m", "n", "k"), [(384, 6144, 4096), (412, 12288, 5568)])
def test_tiles_are_chosen_that_fill_their_waves(m: int, n: int, k: int) -> None:
    """Where tiles of powers of two leave a wave half empty: the reason for a fine set."""
    tactic, record = first(Problem(m, n, k))
    assert lean.is_lean(record)
    taken = waves(tactic, record, Problem(m, n, k))
    assert taken % 1 == 0 or taken % 1 > 0.8, (str(tactic), taken)


def test_a_slower_memory_makes_a_longer_time() -> None:
    """What is bound by HBM on an H200 takes longer on an H100; what is bound by its tensor cores does not."""
    few, many = Problem(16, 16384, 16384), Problem(4000, 8192, 8192)
    for problem, slower in ((few, True), (many, False)):
        tactic, record = first(problem)
        h200, h100 = (cost_lean.estimator(record, problem, device)(tactic) for device in (H200, H100))
        assert h200.bound == ("hbm" if slower else h200.bound)
        assert (h100.seconds > 1.2 * h200.seconds) == slower


def test_no_bias_is_no_reason_to_take_another_kernel() -> None:
    assert not any(FAMILY.idle(record, Problem(100, 1024, 512)) for record in KERNELS)
