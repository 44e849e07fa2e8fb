"""Groups, how they stand on a GPU, and how the best tactics are found; the report of it."""

from __future__ import annotations

import shlex
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch

from tilewright.architectures.device import B300, H200
from tilewright.context import Context
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic
from tilewright.errors import GpuLostError, LaunchError, MeasureError, NoKernelError, WrongResultError
from tilewright.families.blockscaled_gemm.family import FAMILY as BLOCKSCALED
from tilewright.families.blockscaled_gemm.problem import Problem as BlockscaledProblem
from tilewright.families.gemm.family import FAMILY as GEMM
from tilewright.families.gemm.problem import Problem
from tilewright.libraries.registry import Registry
from tilewright.tools import trying
from tilewright.tools.benchmarking import comparing, groups
from tilewright.tools.benchmarking.comparing import Comparison, Options
from tilewright.tools.benchmarking.errors import CannotCompareError
from tilewright.tools.benchmarking.groups import Group, Standing
from tilewright.tools.tuning.trials import Timing


def group(label: str, records: list[KernelRecord]) -> Group:
    return Group(label, (f"*{label}*",), tuple(records))


def standing(registry: Registry, problem: Any, take: Callable[[KernelRecord], bool]) -> Standing:
    records = [record for record in registry.kernels("blockscaled_gemm") if take(record)]
    return groups.stand(group("them", records), BLOCKSCALED, problem, B300, registry)


def test_how_the_committed_ultra_kernels_stand_on_a_b300(committed: Registry) -> None:
    problem = BlockscaledProblem(128, 4096, 7168)
    actual = standing(committed, problem, lambda record: record.config["tile"][2] == 768)
    assert {record.arch for record in actual.runnable} == {"sm_103a"}
    assert len(actual.runnable) > len(actual.of_kind) == len(actual.missing) > 0
    assert all(record.config["d"] == "bf16" for record in actual.of_kind)
    assert actual.built == []
    groups.check(actual, BLOCKSCALED, problem, B300)
    everything = standing(committed, problem, lambda record: True)
    assert {record.arch for record in everything.runnable} == {"sm_100f", "sm_103a"}


def test_kernels_of_another_gpu_and_of_another_kind_say_so(committed: Registry) -> None:
    problem = BlockscaledProblem(128, 4096, 7168)
    hopper = standing(committed, problem, lambda record: record.arch == "sm_90a")
    with pytest.raises(CannotCompareError, match=r"none of the \d+ kernels of them .* compiled for sm_90a"):
        groups.check(hopper, BLOCKSCALED, problem, B300)
    wide = BlockscaledProblem(128, 4096, 7168, a="mxfp8", b="mxfp8")
    ultra = standing(committed, wide, lambda record: record.config["tile"][2] == 768)
    with pytest.raises(CannotCompareError, match="computes mxfp8 x mxfp8 -> bf16") as caught:
        groups.check(ultra, BLOCKSCALED, wide, B300)
    assert "its a is nvfp4, not mxfp8" in str(caught.value)
    assert caught.value.exit_code == 1


def test_the_command_that_builds_takes_what_is_missing(
    committed: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By name where kernels are few, by their fields where they are many: `build` must take them all."""
    from tilewright_generator.cli import build as command  # noqa: PLC0415

    problem = BlockscaledProblem(128, 4096, 7168)
    few = standing(committed, problem, lambda record: record.config["tile"] == [128, 192, 768])
    many = standing(committed, problem, lambda record: record.arch in ("sm_100f", "sm_103a"))
    assert (len(few.missing), len(many.missing) > 6) == (2, True)
    for actual in (few, many):
        program, verb, *rest = shlex.split(groups.build_command(actual.missing, committed))
        assert (program, verb) == ("tilewright", "build")
        split = rest.index("--filter")
        tables = [committed.tables[module] for module in rest[:split]]
        taken = command.select_by(tables, rest[split + 1 :: 2])
        assert taken is not None
        assert taken >= {record.name for record in actual.missing}
        of_them = {record.name for table in tables for record in table.values() if record.name in taken}
        assert all("nvfp4_nvfp4_bf16" in name for name in of_them)
    said = groups.not_built([few, many], committed)
    assert said is not None
    assert "2 of 2 kernels of them" in said.message
    assert "--build" in str(said)
    assert groups.not_built([], committed) is None


def test_the_command_that_builds_leaves_other_targets_of_a_module(committed: Registry) -> None:
    """Kernels of `quantize` for all targets are in one module."""
    from tilewright_generator.cli import build as command  # noqa: PLC0415

    records = [
        record
        for record in committed.kernels("quantize")
        if record.arch == "sm_100f" and record.config["format"] == "nvfp4"
    ]
    _, _, *rest = shlex.split(groups.build_command(records, committed))
    split = rest.index("--filter")
    taken = command.select_by([committed.tables[module] for module in rest[:split]], rest[split + 1 :: 2])
    assert taken is not None
    assert taken >= {record.name for record in records}
    assert {committed.record(name).arch for name in taken} == {"sm_100f"}


class Stopwatch:
    """A meter with times of its own: of each tactic those listed, one after the other, the last for good."""

    def __init__(self, times: dict[str, list[float | Exception]]) -> None:
        self.times = times
        self.calls: list[str] = []

    def __call__(self, problem: Any) -> Callable[[Tactic], float]:
        return self.time

    def time(self, tactic: Tactic) -> float:
        name = str(tactic)
        listed = self.times[name]
        actual = listed[min(self.calls.count(name), len(listed) - 1)]
        self.calls.append(name)
        if isinstance(actual, Exception):
            raise actual
        return actual


def stand_of(label: str, records: list[KernelRecord]) -> Standing:
    return Standing(group(label, records), records, records, records)


def run(a: Standing, b: Standing, meter: Any, problem: Any = None, **options: bool) -> Comparison:
    problems = [problem or Problem(128, 256, 512)]
    (actual,) = comparing.compare(
        GEMM, problems, (a, b), device=H200, meter=meter, options=Options(**options)
    )
    return actual


def test_the_best_is_the_best_of_those_measured_twice(record: Callable[..., KernelRecord]) -> None:
    a = stand_of("a", [record(name) for name in ("lucky", "steady", "slow", "slower", "slowest")])
    b = stand_of("b", [record("other"), record("broken"), record("wrong")])
    meter = Stopwatch(
        {
            "lucky": [1.0, 9.0],
            "steady": [2.0, 2.5],
            "slow": [3.0, 3.0],
            "slower": [3.5],
            "slowest": [7.0],
            "other": [5.0, 4.0],
            "broken": [LaunchError("no room\nat all")],
            "wrong": [WrongResultError("0.3")],
        }
    )
    actual = run(a, b, meter)
    assert actual.a.best == Timing(Tactic("steady"), 2.5)
    assert actual.b.best == Timing(Tactic("other"), 4.0)
    assert actual.speedup == pytest.approx(4.0 / 2.5)
    assert Counter(meter.calls) == {
        "lucky": 2, "steady": 2, "slow": 2, "slower": 1, "slowest": 1, "other": 2, "broken": 1, "wrong": 1,
    }  # fmt: skip
    assert meter.calls[-4:] == ["lucky", "other", "steady", "slow"], "the groups are measured by turns"
    assert [(failure.failure, failure.wrong) for failure in actual.b.failures] == [
        ("no room\nat all", False),
        ("0.3", True),
    ]


def test_a_tactic_of_both_groups_is_measured_once_and_every_split_counts(
    record: Callable[..., KernelRecord],
) -> None:
    split = record("split", scheduler="stream_k", tile=[128, 128, 64])
    meter = Stopwatch({str(tactic): [1.0] for tactic in GEMM.candidates(split, Problem(128, 256, 512), H200)})
    assert len(meter.times) > 4
    actual = run(stand_of("a", [split]), stand_of("b", [split]), meter)
    assert actual.speedup == 1.0
    assert len(meter.calls) == len(meter.times) + comparing.FINALISTS
    assert len(actual.a.timings) == len(actual.b.timings) == len(meter.times)


def test_pruning_and_rearranging(record: Callable[..., KernelRecord]) -> None:
    """For 4096 rows a tile of 64x16 is hopeless by the model; a swizzle may be what is fastest."""
    small, big = record("small", tile=[64, 16, 128], swap_ab=True), record("big", tile=[256, 128, 64])
    problem = Problem(4096, 4096, 4096)
    estimates = [candidate.estimate.seconds for candidate in GEMM.rank([small, big], problem, H200)]
    assert estimates[1] > comparing.HOPELESS * estimates[0]

    class Swizzles(Stopwatch):
        def time(self, tactic: Tactic) -> float:
            self.calls.append(str(tactic))
            return {1: 4.0, 2: 3.0, 4: 1.0, 8: 2.0}[tactic.swizzle] + (tactic.raster != "along_n")

    both = stand_of("both", [small, big])
    actual = run(both, both, Swizzles({}), problem, prune=True)
    assert (actual.a.pruned, [timing.tactic.kernel for timing in actual.a.timings]) == (1, ["big"])
    assert run(both, both, Swizzles({}), problem).a.pruned == 0
    meter = Swizzles({})
    best = run(both, stand_of("small", [small]), meter, problem, rearrange=True)
    assert best.a.best == Timing(Tactic("big", raster="along_n", swizzle=4), 1.0)
    assert best.b.best == Timing(Tactic("small", raster="along_n", swizzle=4), 1.0)
    assert len(best.b.timings) == 12


def test_sides_without_a_result_say_why(record: Callable[..., KernelRecord]) -> None:
    fine, nothing = stand_of("a", [record("fine")]), stand_of("b", [record("broken")])
    meter = Stopwatch({"fine": [1.0], "broken": [NoKernelError("it refuses")]})
    actual = run(fine, nothing, meter)
    assert (actual.b.best, actual.speedup) == (None, None)
    assert actual.b.reason == "all 1 tactics failed, the first: it refuses"
    odd = run(fine, nothing, meter, Problem(128, 256, 500))
    assert "which is not a multiple of 8" in (odd.a.reason or "")
    assert (odd.a.timings, odd.a.best) == ([], None)

    def no_memory(problem: Any) -> Any:
        raise MeasureError("CUDA out of memory")

    assert run(fine, nothing, no_memory).a.reason == "CUDA out of memory"


def test_a_lost_gpu_ends_the_comparison(record: Callable[..., KernelRecord]) -> None:
    side = stand_of("a", [record("fine")])
    with pytest.raises(GpuLostError):
        run(side, side, Stopwatch({"fine": [GpuLostError("gone")]}))


def test_errors_of_torch_are_failures_or_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    with pytest.raises(MeasureError, match=r"^CUDA out of memory$"), trying.refusals("x"):
        raise RuntimeError("CUDA out of memory\nTried to allocate")
    with pytest.raises(LaunchError, match="status 1"), trying.refusals("x"):
        raise LaunchError("status 1")
    with pytest.raises(WrongResultError), trying.refusals("x"):
        raise WrongResultError("0.3")

    def broken() -> None:
        raise RuntimeError("an illegal memory access was encountered")

    monkeypatch.setattr(torch.cuda, "synchronize", broken)
    lost = pytest.raises(GpuLostError, match=r"kernel@splits=2 broke the CUDA context: CUDA error 700")
    with lost, trying.refusals("kernel@splits=2"):
        raise LaunchError("CUDA error 700")


def test_real_calls_of_host_kernels_are_timed_and_checked(host: Context) -> None:
    """The op runs each tactic, of kernels that run on the host; the one that is not built fails by name."""
    records = {record.name: record for record in host.registry.kernels("gemm")}
    a = torch.randn(32, 64, dtype=torch.float64).bfloat16()
    b = torch.randn(48, 64, dtype=torch.float64).bfloat16().T
    expected = a.double() @ b.double()
    from tilewright import gemm  # noqa: PLC0415

    def meter(problem: Problem) -> Callable[[Tactic], float]:
        assert (problem.m, problem.n, problem.k) == (32, 48, 64)

        def seconds(tactic: Tactic) -> float:
            started = time.perf_counter()
            actual = gemm(a, b, tactic=tactic)
            taken = time.perf_counter() - started
            if not float((actual.double() - expected).norm() / expected.norm()) <= 4e-3:  # or NaN
                raise WrongResultError(str(tactic))
            return taken

        return seconds

    plain = stand_of("plain", [records["host_bf16_tn"]])
    split = stand_of("split", [records["host_bf16_tn_streamk"]])
    actual = run(plain, split, meter, Problem(32, 48, 64))
    assert [side.failures for side in (actual.a, actual.b)] == [[], []]
    assert actual.speedup is not None
    assert actual.speedup > 0
    assert len(actual.b.timings) == len(
        GEMM.candidates(records["host_bf16_tn_streamk"], Problem(32, 48, 64), H200)
    )


def test_no_call_compiles_while_it_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    from tilewright.libraries.builds import jit_allowed  # noqa: PLC0415

    for before in ("1", None):
        monkeypatch.setenv("TILEWRIGHT_JIT", before) if before else monkeypatch.delenv("TILEWRIGHT_JIT")
        with trying.no_compiling():
            assert not jit_allowed()
        assert jit_allowed()
