"""Groups, how they stand on a GPU, and how the best tactics are found; the report of it."""

from __future__ import annotations

import csv
import io
import json
import shlex
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tilewright.architectures.device import B300, H200
from tilewright.context import Context
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic
from tilewright.errors import (
    ArgumentError,
    GpuLostError,
    LaunchError,
    MeasureError,
    NoKernelError,
    WrongResultError,
)
from tilewright.families.blockscaled_gemm.family import FAMILY as BLOCKSCALED
from tilewright.families.blockscaled_gemm.problem import Problem as BlockscaledProblem
from tilewright.families.gemm.family import FAMILY as GEMM
from tilewright.families.gemm.problem import Problem
from tilewright.libraries.registry import Registry
from tilewright.tools.benchmarking import groups, report
from tilewright.tools.benchmarking.errors import CannotCompareError
from tilewright.tools.benchmarking.groups import Group, Standing
from tilewright.tools.tuning.trials import Timing

torch = pytest.importorskip("torch")

from tilewright.tools import trying  # noqa: E402
from tilewright.tools.benchmarking import comparing  # noqa: E402
from tilewright.tools.benchmarking.comparing import Comparison, Options, Side  # noqa: E402

LABELS = ("ultra", "rest")


@pytest.mark.parametrize(
    ("first", "second", "wanted"),
    [
        ("arch=sm103 k_tile=768", "rest", ("sm103_k_tile768", "rest")),
        ("schedule=pingpong", "schedule=cooperative", ("pingpong", "cooperative")),
        ("swap_ab=true", "swap_ab=false", ("swap_ab", "no_swap_ab")),
        ("~swap_ab=true", "*coop*,*ping*", ("not_swap_ab", "coop_ping")),
        ("arch=sm_100f", "arch=sm100f", ("sm_100f", "sm100f")),
        ("*coop", "coop*", ("a", "b")),
        ("*", "rest", ("a", "rest")),
        ("gemm_sm90_bf16_bf16_f32_bf16_tn_128x128x64_lean_pingpong", "rest", ("a", "rest")),
    ],
)
def test_labels_come_from_filters(first: str, second: str, wanted: tuple[str, str]) -> None:
    assert groups.labels(first.split(), second.split()) == wanted


@pytest.mark.parametrize("labels", [("a", "a"), ("", "b"), ("a,b", "c"), ("a b", "c")])
def test_labels_that_make_no_columns(labels: tuple[str, str]) -> None:
    with pytest.raises(ArgumentError, match="--labels"):
        groups.check_labels(*labels)


def group(label: str, records: list[KernelRecord]) -> Group:
    return Group(label, (f"*{label}*",), tuple(records))


@pytest.fixture(scope="module")
def committed() -> Registry:
    return Registry(libraries=lambda module: [])


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
    assert [(one.failure, one.wrong) for one in actual.b.failures] == [
        ("no room\nat all", False),
        ("0.3", True),
    ]


def test_a_tactic_of_both_groups_is_measured_once_and_every_split_counts(
    record: Callable[..., KernelRecord],
) -> None:
    split = record("split", scheduler="stream_k", tile=[128, 128, 64])
    meter = Stopwatch({str(one): [1.0] for one in GEMM.candidates(split, Problem(128, 256, 512), H200)})
    assert len(meter.times) > 4
    actual = run(stand_of("a", [split]), stand_of("b", [split]), meter)
    assert actual.speedup == 1.0
    assert len(meter.calls) == len(meter.times) + comparing.FINALISTS
    assert len(actual.a.timings) == len(actual.b.timings) == len(meter.times)


def test_pruning_and_rearranging(record: Callable[..., KernelRecord]) -> None:
    """For 4096 rows a tile of 64x16 is hopeless by the model; a swizzle may be what is fastest."""
    small, big = record("small", tile=[64, 16, 128], swap_ab=True), record("big", tile=[256, 128, 64])
    problem = Problem(4096, 4096, 4096)
    estimates = [one.estimate.seconds for one in GEMM.rank([small, big], problem, H200)]
    assert estimates[1] > comparing.HOPELESS * estimates[0]

    class Swizzles(Stopwatch):
        def time(self, tactic: Tactic) -> float:
            self.calls.append(str(tactic))
            return {1: 4.0, 2: 3.0, 4: 1.0, 8: 2.0}[tactic.swizzle] + (tactic.raster != "along_n")

    both = stand_of("both", [small, big])
    actual = run(both, both, Swizzles({}), problem, prune=True)
    assert (actual.a.pruned, [one.tactic.kernel for one in actual.a.timings]) == (1, ["big"])
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
            if float((actual.double() - expected).norm() / expected.norm()) > 4e-3:
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


def comparisons() -> list[Comparison]:
    first, second = Problem(1, 4096, 7168), Problem(64, 4096, 7168)

    def side(name: str, seconds: float) -> Side:
        best = Timing(Tactic(name), seconds)
        return Side(best, [Timing(Tactic("x_slower"), 2 * seconds), best])

    refused = Timing(Tactic("x_c"), None, "refused\n  at once", wrong=True)
    return [
        Comparison(first, side("x_a", 10e-6), side("x_b", 20e-6)),
        Comparison(second, side("x_a@splits=4", 40e-6), side("x_b", 20e-6)),
        Comparison(second, side("x_a", 40e-6), Side(None, [refused], 3, "all 1 tactics failed")),
    ]


def test_a_wide_table_has_its_tactics_under_the_problems() -> None:
    lines = report.table(comparisons(), LABELS).splitlines()
    assert lines[1].replace("ultra ", "ultra:").replace("rest ", "rest:").split() == [
        "m", "n", "k", "ultra:ms", "ultra:TFLOP/s", "rest:ms", "rest:TFLOP/s", "speed-up",
    ]  # fmt: skip
    assert lines[2].split() == ["1", "4096", "7168", "0.0100", "5.9", "0.0200", "2.9", "2.000"]
    assert lines[3:5] == ["    ultra: a", "    rest: b"]
    assert lines[5].split()[-1] == "0.500"
    assert lines[9] == "    ultra: a"
    assert lines[10].startswith("Speed-up of ultra"), "a side without a result names no tactic"
    assert max(map(len, lines[:-1])) <= 80


def test_the_table_has_the_columns_of_pull_request_2888(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "width", lambda: 200)
    lines = report.table(comparisons(), LABELS).splitlines()
    assert lines[0] == "Tactics' names go on from x_"
    assert lines[1].split("  ")[-1] == "speed-up"
    assert lines[1].replace("ultra ", "ultra:").replace("rest ", "rest:").split() == [
        "m", "n", "k", "ultra:ms", "ultra:TFLOP/s", "ultra:tactic", "rest:ms", "rest:TFLOP/s", "rest:tactic",
        "speed-up",
    ]  # fmt: skip
    assert lines[2].split() == ["1", "4096", "7168", "0.0100", "5.9", "a", "0.0200", "2.9", "b", "2.000"]
    assert lines[4].split() == ["64", "4096", "7168", "0.0400", "94.0", "a", "-", "-", "-", "-"]
    assert len({len(line) for line in lines[1:5]}) == 1
    assert lines[-1] == (
        "Speed-up of ultra over rest (rest's time over ultra's): geomean 1.000; "
        "ultra is faster on 1 of 2; 1 without a result on both sides"
    )
    assert report.table([], LABELS).endswith("No problem was measured on both sides.")


def test_the_csv_has_the_header_of_pull_request_2888() -> None:
    text = report.as_csv(comparisons(), ("sm100", "sm103"))
    assert text.splitlines()[0] == (
        "m,n,k,sm100_ms,sm100_tflops,sm100_tactic,sm103_ms,sm103_tflops,sm103_tactic,speedup"
    )
    rows = list(csv.DictReader(io.StringIO(text)))
    assert rows[1]["sm100_tactic"] == "x_a@splits=4"
    assert (rows[0]["sm100_ms"], rows[0]["sm103_ms"], rows[0]["speedup"]) == ("0.01", "0.02", "2.0")
    assert float(rows[0]["sm100_tflops"]) == pytest.approx(2 * 4096 * 7168 / 10e-6 * 1e-12, abs=1e-3)
    assert [rows[2][name] for name in ("sm103_ms", "sm103_tflops", "sm103_tactic", "speedup")] == [""] * 4
    awkward = Side(Timing(Tactic("x", cluster="2x1", raster="along_n", swizzle=2), 1e-5))
    quoted = report.as_csv([Comparison(Problem(1, 8, 8), awkward, awkward)], LABELS)
    assert len(next(iter(csv.reader(quoted.splitlines()[1:])))) == 10, "a comma in a tactic is no column"


def test_the_json_holds_everything(tmp_path: Path) -> None:
    actual = report.as_json(comparisons(), LABELS, {"device": "NVIDIA H200"}, tactics=True)
    actual = json.loads(json.dumps(actual))
    assert actual["device"] == "NVIDIA H200"
    assert actual["geomean"] == pytest.approx(1.0)
    first, _, last = actual["problems"]
    assert (first["problem"]["m"], first["problem"]["d"]) == (1, "bf16")
    assert first["a"]["best"] == {"ms": 0.01, "tflops": 5.872, "tactic": "x_a"}
    assert [one["tactic"] for one in first["a"]["tactics"]] == ["x_a", "x_slower"]
    assert last["b"]["failed"] == [{"tactic": "x_c", "reason": "refused\n  at once", "wrong": True}]
    assert (last["b"]["best"], last["b"]["pruned"], last["speedup"]) == (None, 3, None)
    brief = report.as_json(comparisons()[2:], LABELS, {}, tactics=False)
    assert "tactics" not in brief["problems"][0]["a"]
    assert brief["geomean"] is None


def test_failures_are_told_unasked_and_every_tactic_on_request() -> None:
    brief = list(report.notes(comparisons(), LABELS, tactics=False))
    assert brief == [
        "64x4096x7168:",
        "  rest: no result: all 1 tactics failed",
        "  rest: WRONG  x_c: refused; at once",
    ]
    full = list(report.notes(comparisons(), LABELS, tactics=True))
    assert full[0] == "1x4096x7168:"
    assert full[1].split() == ["ultra:", "0.0100", "ms", "5.9", "TFLOP/s", "x_a"]
    assert full[2].endswith("x_slower")
    assert full[-1] == "  rest: 3 more tactics were left out by the cost model"
