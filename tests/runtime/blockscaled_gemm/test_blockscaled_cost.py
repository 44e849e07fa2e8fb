"""The cost models of block-scaled kernels: against times that others published, and what they choose on
described GPUs among the kernels that are committed."""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from altered import altered
from committed_kernels import by_mma, cutlass, cutlass_4_2, ranked

from tilewright.architectures.device import (
    B200,
    B300,
    DESCRIBED,
    GB10,
    H100,
    H200,
    RTX_5090,
    RTX_PRO_6000,
    THOR,
    DeviceProperties,
)
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic
from tilewright.families.blockscaled_gemm.cost_tcgen05 import is_ultra
from tilewright.families.blockscaled_gemm.family import FAMILY
from tilewright.families.blockscaled_gemm.occupancy import resident
from tilewright.families.blockscaled_gemm.problem import Alignment, Problem
from tilewright.libraries.registry import Registry
from tilewright.selection.choice import choose

DEVICES = {device.name: device for device in DESCRIBED.values()}
FUTURE = RTX_PRO_6000._replace(name="a 12.2", capability=(12, 2))


def test_few_rows_on_an_rtx_pro_6000_meet_few_columns(committed: Registry) -> None:
    """The first of all kernels is one of ours with swapped operands."""
    for m, columns in ((8, 16), (16, 16), (32, 32)):
        first = ranked(committed, RTX_PRO_6000, Problem(m, 5120, 25600))[0]
        assert by_mma(first.record)
        assert first.record.config["swap_ab"]
        assert first.record.config["tile"][1] <= columns


def test_large_products_on_an_rtx_5090(committed: Registry) -> None:
    """QuACK's pull request 153: 1343 TFLOP/s in NVFP4, 650 in MXFP8."""
    for form, tflops in (("nvfp4", 1343), ("mxfp8", 650)):
        problem = Problem(8192, 8192, 8192, a=form, b=form)
        best = ranked(committed, RTX_5090, problem)[0]
        assert problem.flops / best.estimate.seconds / 1e12 == pytest.approx(tflops, rel=0.2)


def test_an_rtx_pro_6000_takes_what_2460_added(committed: Registry) -> None:
    problem = Problem(32, 5120, 25600)
    first = ranked(committed, RTX_PRO_6000, problem, cutlass_4_2)[0]
    added = first.record.config["tile"] in ([128, 128, 256], [256, 128, 128])
    assert added or first.record.config["scheduler"] == "stream_k"
    # With the tiles that CUTLASS 4.5 compiles: few columns for few rows.
    small = ranked(committed, RTX_PRO_6000, problem, cutlass)[0]
    assert small.record.cutlass == "4.5"
    assert small.record.config["swap_ab"]
    assert small.record.config["tile"][1] == 32
    assert small.estimate.seconds < first.estimate.seconds


@pytest.mark.parametrize("m", [2048, 4096, 8192, 16384])
def test_a_b300_takes_ultra_kernels_for_much_work(committed: Registry, m: int) -> None:
    first = ranked(committed, B300, Problem(m, 8192, 28672))[0]
    assert first.record.arch == "sm_103a"
    assert first.record.config["tile"][2] == 768


@pytest.mark.parametrize("m", [8, 16, 32, 64])
def test_a_b300_takes_kernels_of_sm_100_for_little_work(committed: Registry, m: int) -> None:
    first = ranked(committed, B300, Problem(m, 8192, 8192))[0]
    assert first.record.arch == "sm_100f"


@pytest.mark.parametrize(("k", "m"), [(8192, 8), (28672, 4096)])
def test_a_b200_never_sees_ultra_kernels(committed: Registry, k: int, m: int) -> None:
    actual = ranked(committed, B200, Problem(m, 8192, k))
    assert actual
    assert not any(is_ultra(candidate.record) for candidate in actual)


@pytest.mark.parametrize(
    ("problem", "reason"),
    [
        (Problem(4096, 8200, 28672), "d has 8200 elements"),
        (Problem(4096, 8192, 28672, alignment=Alignment(d=8)), "d's rows begin at multiples of 8"),
    ],
)
def test_others_take_over_where_ultra_cannot_store(
    committed: Registry, problem: Problem, reason: str
) -> None:
    """An ultra kernel that stores 16 bytes at a time may still be there, for swapped operands."""
    records = committed.route("blockscaled_gemm", B300)
    actual = FAMILY.rank(records, problem, B300)
    assert actual
    assert not any(candidate.record.config["store"] == "direct_256" for candidate in actual)
    assert f"{reason} " in FAMILY.explain(records, problem)
    best_of_all = FAMILY.rank(records, replace(problem, n=8192, alignment=Alignment()), B300)[0]
    assert best_of_all.record.config["store"] == "direct_256"


@pytest.mark.parametrize("device", DEVICES.values(), ids=DEVICES)
@pytest.mark.parametrize("form", ["nvfp4", "mxfp8"])
def test_ranking_is_deterministic_and_legal(committed: Registry, device: DeviceProperties, form: str) -> None:
    records = committed.route("blockscaled_gemm", device)
    shuffler = random.Random(7)
    for m, n, k in ((1, 4096, 7168), (48, 5120, 25600), (640, 7168, 2048), (8192, 8192, 8192)):
        problem = Problem(m, n, k, a=form, b=form)
        first = FAMILY.rank(records, problem, device)
        again = FAMILY.rank(shuffler.sample(records, len(records)), problem, device)
        assert [candidate.tactic for candidate in first] == [candidate.tactic for candidate in again]
        assert first
        for candidate in first:
            assert FAMILY.misfit_tactic(candidate.tactic, candidate.record, problem) is None
            assert candidate.record in records
            assert 0 < candidate.estimate.main_loop < candidate.estimate.seconds
            assert candidate.estimate.bound in ("math", "fill", "hbm", "power")


@pytest.mark.parametrize(
    ("device", "arch"),
    [
        (B200, "sm_100f"), (RTX_PRO_6000, "sm_120f"), (RTX_5090, "sm_120f"), (GB10, "sm_120f"),
        (FUTURE, "sm_120f"), (THOR, "sm_110a"), (H100, "sm_90a"), (H200, "sm_90a"),
    ],
    ids=lambda one: getattr(one, "name", one),
)  # fmt: skip
def test_each_gpu_chooses_from_its_own(committed: Registry, device: DeviceProperties, arch: str) -> None:
    for m in (1, 32, 512, 4096):
        for form in ("nvfp4", "mxfp8"):
            actual = ranked(committed, device, Problem(m, 4096, 4096, a=form, b=form))
            assert {candidate.record.arch for candidate in actual} == {arch}


@pytest.mark.parametrize("device", DEVICES.values(), ids=DEVICES)
def test_more_work_takes_longer(committed: Registry, device: DeviceProperties) -> None:
    for axis in range(3):
        shapes = [
            [256 if dimension != axis else size for dimension in range(3)]
            for size in (256, 1024, 4096, 16384)
        ]
        times = [ranked(committed, device, Problem(*shape))[0].estimate.seconds for shape in shapes]
        # Two waves of few tiles, cut into more, may come out a little ahead of one.
        assert all(later > earlier * 0.98 for earlier, later in pairwise(times))
        # A Rubin reads what 64 times the work reads in little more than a launch.
        assert times[-1] > (1.15 if device.memory_bandwidth > 1e13 else 1.3) * times[0]


@pytest.mark.parametrize("device", DEVICES.values(), ids=DEVICES)
def test_no_estimate_beats_the_hardware(committed: Registry, device: DeviceProperties) -> None:
    """Multiplications a clock of an SM: twice and four times BF16's, ultra's half more; sm_90 has BF16's."""
    rates = {9: 2048, 10: 16384 if device.capability[1] == 0 else 24576, 11: 16384, 12: 2048}
    problem = Problem(16384, 16384, 16384)
    peak = 2 * rates[device.capability[0]] * device.sm_count * device.clock_hz
    best = ranked(committed, device, problem)[0]
    assert 0.2 * peak < problem.flops / best.estimate.seconds < peak
    few = Problem(1, 65536, 16384)
    read = ranked(committed, device, few)[0].estimate.seconds
    assert few.bytes / read < device.memory_bandwidth


@pytest.mark.parametrize(("name", "ratio"), [("b200", 2), ("b300", 3), ("rubin", 3.8)])
def test_the_peak_of_fp4_is_that_of_the_devices_own_instructions(name: str, ratio: float) -> None:
    """Beside FP8's, which has half the rate of FP4 on a B200."""
    fp4, fp8 = (Problem(8, 8, 8, a=dtype, b=dtype).kind for dtype in ("nvfp4", "mxfp8"))
    device = DESCRIBED[name]
    assert FAMILY.peak(fp4, device) == pytest.approx(ratio * (FAMILY.peak(fp8, device) or 0))


def test_weights_that_are_read_once_split_over_clusters_on_hopper(committed: Registry) -> None:
    """Few rows and few columns leave most SMs idle, unless k is cut; many rows do not."""
    few = ranked(committed, H200, Problem(16, 2048, 7168))[0]
    assert few.tactic.splits > 1
    assert few.record.config["tile"][1] <= 32
    many = ranked(committed, H200, Problem(2048, 4096, 7168))[0]
    assert many.tactic.splits == 1
    assert many.record.config["tile"][1] >= 64


def test_resident_thread_blocks_on_hopper(committed: Registry) -> None:
    """As the kernels' launch bounds (tilewright/blockscaled_gemm/sm90/config.hpp)."""
    actual = {
        tuple(record.config["tile"]): resident(record.config["tile"], record.facts["smem_bytes"])
        for record in hopper_nvfp4(committed)
    }
    assert actual[256, 128, 128] == 1
    assert actual[128, 32, 256] == 2
    assert 3 <= actual[64, 8, 256] <= 4


def hopper_nvfp4(registry: Registry) -> list[KernelRecord]:
    records = registry.route("blockscaled_gemm", H200)
    return [record for record in records if record.config["a"] == record.config["b"] == "nvfp4"]


def test_an_estimate_of_one_tactic(committed: Registry) -> None:
    problem = Problem(512, 4096, 7168)
    for candidate in ranked(committed, B300, problem)[::40]:
        weigh = FAMILY.estimator(candidate.record, problem, B300)
        assert weigh is not None
        assert weigh(candidate.tactic) == candidate.estimate


def test_a_cluster_of_tiles_that_do_not_exist_costs(committed: Registry) -> None:
    """One row of tiles in clusters of four rows keeps three quarters of the SMs idle."""
    record = next(
        record
        for record in committed.route("blockscaled_gemm", B200)
        if record.name.endswith("nvfp4_nvfp4_bf16_128x128x256_dyn_2sm")
    )
    problem = Problem(128, 65536, 4096)
    weigh = FAMILY.estimator(record, problem, B200)
    assert weigh is not None
    low, high = (
        weigh(Tactic(record.name, cluster=cluster, fallback="2x1")).seconds for cluster in ("2x2", "4x2")
    )
    assert high > 1.5 * low


@pytest.mark.parametrize("device", [B300, B200, RTX_PRO_6000, H200], ids=lambda one: one.name)
def test_a_selection_of_a_known_kind_weighs_each_tactic_once(
    committed: Registry, device: DeviceProperties
) -> None:
    """Which kernels compute the kind is not asked again; a kernel's model is made once for its tactics."""
    records = committed.route("blockscaled_gemm", device)
    asked: Counter[str] = Counter()

    def counted(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            asked[name] += 1
            return function(*arguments)

        return call

    family = altered(
        FAMILY,
        misfit_options=counted("kinds", FAMILY.misfit_options),
        misfit_extents=counted("extents", FAMILY.misfit_extents),
        estimator=counted("models", FAMILY.estimator),
    )
    choose(family, committed, records, Problem(1, 8192, 28672), device)
    asked.clear()
    problem = Problem(2, 8192, 28672)
    choose(family, committed, records, problem, device)
    of_kind = family.of_kind(committed, records, problem.kind)
    assert asked["kinds"] == 0
    assert asked["extents"] == len(of_kind)
    assert 0 < asked["models"] <= len(of_kind)


def test_on_hopper_the_pick_is_near_the_best_that_was_measured() -> None:
    path = Path(__file__).parents[1] / "data/h200_blockscaled_times.json"
    registry = Registry()
    losses = []
    for row in json.loads(path.read_text(encoding="utf-8"))["problems"]:
        asked = Problem(row["m"], row["n"], row["k"], a=row["format"], b=row["format"])
        times = {f"blockscaled_gemm_sm90_{name}": time for name, time in row["microseconds"].items()}
        records = registry.route("blockscaled_gemm", H200)
        measured = [
            candidate for candidate in FAMILY.rank(records, asked, H200) if str(candidate.tactic) in times
        ]
        assert len(measured) > 10
        losses.append(times[str(measured[0].tactic)] / min(times.values()))
    assert len(losses) > 40
    assert math.exp(sum(map(math.log, losses)) / len(losses)) < 1.04
    assert max(losses) < 1.4
