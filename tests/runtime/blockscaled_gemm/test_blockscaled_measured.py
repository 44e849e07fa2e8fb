"""Cost models of block-scaled kernels against times that others published."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from committed_kernels import by_mma, cutlass, cutlass_4_2, ranked, unswapped

from tilewright.architectures.device import B200, B300, RTX_PRO_6000, DeviceProperties
from tilewright.declarations.table import KernelRecord
from tilewright.families.blockscaled_gemm.cost_tcgen05 import is_ultra
from tilewright.families.blockscaled_gemm.problem import Problem
from tilewright.libraries.registry import Registry

PUBLISHED = yaml.safe_load(
    (Path(__file__).parents[3] / "benchmarks/shapes/published_times.yaml").read_text(encoding="utf-8")
)
B300_ROWS = [(row["k"], row["m"], row["before"], row["after"]) for row in PUBLISHED["b300"]]
B300_TFLOPS = [
    row for row in B300_ROWS if row[1] >= 512
]  # of fewer rows, memory, L2 or launches take all time
B200_MICROSECONDS = [tuple(row.values()) for row in PUBLISHED["b200"]]
SM120_MICROSECONDS = [tuple(row.values()) for row in PUBLISHED["sm120"] if "before" not in row]


def as_measured(problem: Problem) -> DeviceProperties:
    """A B300 in a loop that does not clear L2: what fits into it comes from there, several times as fast."""
    fits = problem.bytes < 0.9 * B300.l2_bytes
    return B300._replace(memory_bandwidth=4 * B300.memory_bandwidth) if fits else B300


@pytest.mark.parametrize(("k", "m", "before", "after"), B300_TFLOPS)
def test_b300_as_2303_measured_it(committed: Registry, k: int, m: int, before: float, after: float) -> None:
    problem = Problem(m, 8192, k)
    device = as_measured(problem)

    def tflops(keep: Callable[[KernelRecord], bool]) -> float:
        return problem.flops / ranked(committed, device, problem, keep)[0].estimate.seconds / 1e12

    old = tflops(lambda record: unswapped(record) and not is_ultra(record))
    new = tflops(unswapped)
    assert old == pytest.approx(before, rel=0.2)
    assert new == pytest.approx(after, rel=0.2)
    assert new >= old
    assert new / old == pytest.approx(after / before, abs=0.05)


@pytest.mark.parametrize(("k", "m", "before", "after"), B300_ROWS)
def test_each_row_of_2303_is_within_a_quarter(
    committed: Registry, k: int, m: int, before: float, after: float
) -> None:
    """With a cold L2, rows that fit into it may take longer: 2303's loop reads the weights from L2."""
    problem = Problem(m, 8192, k)

    def tflops(device: DeviceProperties, keep: Callable[[KernelRecord], bool]) -> float:
        return problem.flops / ranked(committed, device, problem, keep)[0].estimate.seconds / 1e12

    def old(record: KernelRecord) -> bool:
        return unswapped(record) and not is_ultra(record)

    measured = as_measured(problem)
    assert tflops(measured, old) == pytest.approx(before, rel=0.25)
    assert tflops(measured, unswapped) == pytest.approx(after, rel=0.25)
    cold = tflops(B300, unswapped) / after
    assert cold == pytest.approx(1, rel=0.25) or (measured is not B300 and 0.6 < cold < 1)


@pytest.mark.parametrize(("m", "n", "k", "microseconds"), B200_MICROSECONDS)
def test_b200_as_others_measured_it(committed: Registry, m: int, n: int, k: int, microseconds: float) -> None:
    best = ranked(committed, B200, Problem(m, n, k), unswapped)[0]
    assert best.estimate.seconds * 1e6 == pytest.approx(microseconds, rel=0.2)


@pytest.mark.parametrize(("m", "n", "k", "microseconds"), SM120_MICROSECONDS)
def test_sm120_as_others_measured_it(
    committed: Registry, m: int, n: int, k: int, microseconds: float
) -> None:
    def theirs(record: KernelRecord) -> bool:
        return unswapped(record) and cutlass_4_2(record) and record.config["schedule"] == "cooperative"

    best = ranked(committed, RTX_PRO_6000, Problem(m, n, k), theirs)[0]
    assert best.estimate.seconds * 1e6 == pytest.approx(microseconds, rel=0.25)


def test_sm120_before_2460(committed: Registry) -> None:
    """The one tile there was, without stream-K, takes 124 us."""

    def before(record: KernelRecord) -> bool:
        config = record.config
        cooperative = config["tile"] == [128, 128, 128] and config["schedule"] == "cooperative"
        return (
            cooperative and unswapped(record) and cutlass(record) and config["scheduler"] == "data_parallel"
        )

    best = ranked(committed, RTX_PRO_6000, Problem(32, 5120, 25600), before)[0]
    assert best.estimate.seconds * 1e6 == pytest.approx(124, rel=0.15)


@pytest.mark.parametrize(
    ("types", "n", "k", "tflops"),
    [
        ("mxfp4 mxfp4", 2112, 7168, 1307), ("mxfp4 mxfp4", 7168, 2048, 1201),
        ("mxfp4 mxfp4", 24576, 1536, 1168),
        ("mxfp8 mxfp8", 2112, 7168, 624), ("mxfp8 mxfp8", 5120, 8192, 699), ("mxfp8 mxfp8", 5120, 25600, 731),
        ("mxfp8 mxfp8", 24576, 1536, 637), ("mxfp8 mxfp4", 7168, 2048, 670),
    ],
)  # fmt: skip
def test_our_kernels_of_sm120_as_deep_gemm_measured_its_own(
    committed: Registry, types: str, n: int, k: int, tflops: float
) -> None:
    """DeepGEMM's pull request 324, whose kernels have the same structure; 4096 rows."""
    a, b = types.split()
    problem = Problem(4096, n, k, a=a, b=b)
    best = ranked(committed, RTX_PRO_6000, problem, by_mma)[0]
    assert problem.flops / best.estimate.seconds / 1e12 == pytest.approx(tflops, rel=0.15)


def test_our_kernels_of_sm120_in_the_tiles_of_2460(committed: Registry) -> None:
    """Its own figure, 69 us. Nobody has timed ours."""

    def its_tiles(record: KernelRecord) -> bool:
        tiles = ([128, 128, 128], [128, 128, 256], [256, 128, 128])
        return by_mma(record) and unswapped(record) and record.config["tile"] in tiles

    first = ranked(committed, RTX_PRO_6000, Problem(32, 5120, 25600), its_tiles)[0]
    assert first.estimate.seconds * 1e6 == pytest.approx(69, rel=0.15)
    assert first.tactic.decomposition == "split_k"
