"""The search for the fastest tactic: what is timed, how often, and what becomes of what fails."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from altered import altered
from made_up_times import PROBLEM, Times, order, run

from tilewright.architectures.device import H200
from tilewright.declarations.tactics import Tactic
from tilewright.errors import GpuLostError, LaunchError, MeasureError, TilewrightError, WrongResultError
from tilewright.families.gemm.family import FAMILY
from tilewright.families.gemm.problem import Problem
from tilewright.libraries.registry import Registry
from tilewright.selection.tuned_files import Entry
from tilewright.tools.tuning import stages
from tilewright.tools.tuning.search import promising, search
from tilewright.tools.tuning.stages import Options
from tilewright.tools.tuning.trials import Timing, Trials


@pytest.fixture(autouse=True)
def time_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loaded machine then takes no rounds away."""
    monkeypatch.setattr(stages, "time", SimpleNamespace(monotonic=lambda: 0.0))


@pytest.fixture
def registry(tmp_path: Path, row: Callable[..., Any], table: Callable[..., Path], built: Any) -> Registry:
    """Twenty tiles, of which `unbuilt` is not built."""
    tiles = [(m, n) for m in (64, 128, 192, 256) for n in (64, 96, 128, 192, 256)]
    rows = [row(f"k{m}x{n}", tile=[m, n, 64]) for m, n in tiles]
    rows.append(row("unbuilt", tile=[128, 256, 128]))
    table(tmp_path / "generated", "kernels", rows)
    return Registry(tmp_path / "generated", libraries=lambda _: [built(tmp_path / "x.so", ("unbuilt",))])


def test_a_tactic_that_the_model_put_behind_is_found(registry: Registry) -> None:
    names = order(registry)
    clock = Times(registry, {names[4]: 0.5})
    actual = run(registry, clock)
    assert actual.tactic is not None
    assert (actual.tactic.kernel, actual.rank, actual.reason) == (names[4], 4, None)
    assert actual.seconds == pytest.approx(0.5 * clock.unit)
    assert (actual.model, actual.model_seconds) == (Tactic(names[0]), pytest.approx(clock.unit))
    assert actual.legal == 20
    assert clock.verified == [str(actual.tactic)]
    assert "unbuilt" not in {tactic for tactic, _ in clock.quicks}


def test_what_the_model_takes_to_be_hopeless_is_not_timed(registry: Registry) -> None:
    names = order(registry)
    ranked = [
        candidate
        for candidate in FAMILY.rank(registry.kernels("gemm"), PROBLEM, H200)
        if candidate.tactic.kernel != "unbuilt"
    ]
    near = promising(ranked, 1.2)
    assert 1 < len(near) < len(ranked)
    assert all(candidate.estimate.seconds <= 1.2 * ranked[0].estimate.seconds for candidate in near)
    assert promising(ranked, 1.0, least=5) == ranked[:5]
    assert promising(ranked, 100.0, most=7) == ranked[:7]
    assert promising(ranked, 1.0, most=3, least=5) == ranked[:3]
    assert promising([], 1.0) == []
    clock = Times(registry, {})
    run(registry, clock, keep=4)
    assert list(dict.fromkeys(name.partition("@")[0] for name, _ in clock.quicks)) == names[:4]
    everything = Times(registry, {})
    actual = search(FAMILY, registry, PROBLEM, H200, make_clock=everything, options=Options.exhaustive())
    assert {name for name, _ in everything.quicks} >= set(names)
    assert all(limit == float("inf") for _, limit in everything.quicks)
    assert actual.tried >= len(names)


def test_a_quick_time_may_stop_where_it_is_hopeless(registry: Registry) -> None:
    """The limit is that of the fastest so far."""
    names = order(registry)
    clock = Times(registry, {names[0]: 1.0, names[1]: 0.8, names[2]: 3.0})
    run(registry, clock, stop=1.5)
    limits = dict(reversed(clock.quicks))
    assert limits[names[0]] == float("inf")
    assert limits[names[1]] == pytest.approx(1.5)
    assert limits[names[2]] == limits[names[3]] == pytest.approx(1.2)


def test_stages_time_fewer_tactics_more_often(registry: Registry) -> None:
    clock = Times(registry, {})
    actual = run(registry, clock)
    times = Counter(clock.agains)
    assert len(times) <= stages.SEMIFINALISTS + 1 + stages.FINALISTS
    assert times[order(registry)[0]] > 0, "the model's first always gets that far"
    assert times[str(actual.tactic)] >= stages.FINAL_ROUNDS
    assert max(times.values()) == times[str(actual.tactic)]
    assert len(clock.quicks) == len({name for name, _ in clock.quicks}), "nothing is screened twice"


def test_the_models_first_is_timed_again_however_long_its_quick_time_was(registry: Registry) -> None:
    """The GPU's clocks still rise while it is taken."""
    names = order(registry)
    others = dict.fromkeys(names[1 : 2 + stages.SEMIFINALISTS], 0.9)
    clock = Times(registry, {**others, names[0]: 1.1})
    run(registry, clock)
    assert names[0] in clock.agains
    assert len({name for name in clock.agains if "@" not in name}) == stages.SEMIFINALISTS + 1


def test_the_fastest_are_varied(registry: Registry) -> None:
    names = order(registry)
    best = f"{names[1]}@raster=along_n,swizzle=4"
    actual = run(registry, Times(registry, {names[1]: 0.9, best: 0.7}))
    assert str(actual.tactic) == best
    assert actual.rank == 1, "that of the tactic it is a variant of"
    varied = {timing.tactic.kernel for timing in actual.timings if timing.tactic.swizzle > 1}
    assert len(varied) == stages.VARIED


def test_where_tiles_are_computed_at_once_their_order_is_not_varied(registry: Registry) -> None:
    small = Problem(256, 256, 4096)
    clock = Times(registry, {})
    actual = search(FAMILY, registry, small, H200, make_clock=clock)
    assert actual.tactic is not None
    assert {timing.tactic.raster for timing in actual.timings} == {"heuristic"}


def test_of_the_best_clusters_are_tried_that_no_selection_weighs(registry: Registry) -> None:
    names = order(registry)
    family = altered(FAMILY, wider=lambda tactic: [replace(tactic, swizzle=8), replace(tactic, splits=2)])
    of = dict.fromkeys(names, 2.0) | {
        names[0]: 1.0,
        names[1]: 0.9,
        names[2]: 0.8,
        f"{names[1]}@swizzle=8": 0.3,
    }
    clock = Times(registry, of)
    actual = search(family, registry, PROBLEM, H200, make_clock=clock)
    assert str(actual.tactic) == f"{names[1]}@swizzle=8"
    timed = [name for name, _ in clock.quicks]
    wider = [f"{name}@swizzle=8" for name in names[2::-1]]
    assert [name for name in timed if name in wider] == wider
    assert timed.index(wider[0]) < min(timed.index(name) for name in timed if "raster" in name)
    assert not any("splits" in name for name in timed), "the kernels do not split k"


def test_what_is_tuned_near_is_timed_whatever_the_model_says(registry: Registry) -> None:
    names = order(registry)
    near = [Tactic(names[-1], raster="along_m"), Tactic("unbuilt"), Tactic(names[1])]
    clock = Times(registry, {str(near[0]): 0.3})
    actual = run(registry, clock, keep=4, near=near)
    timed = list(dict.fromkeys(name for name, _ in clock.quicks))
    assert timed[:5] == [names[0], str(near[0]), names[1], names[2], names[3]]
    assert (actual.tactic, actual.rank) == (near[0], len(names) - 1)
    assert "unbuilt" not in timed


def test_another_library_takes_turns_with_the_finalists(registry: Registry) -> None:
    clock = Times(registry, {}, drift=0.001)
    clock.peers = iter([7.0, *[5.0] * (stages.FINAL_ROUNDS - 2), 9.0])
    actual = run(registry, clock)
    assert actual.peer == 5.0, "the median"
    assert next(clock.peers, None) is None, "once a round"
    assert actual.as_json()["peer_us"] == 5e6
    assert actual.as_json()["times"][str(actual.tactic)] == pytest.approx(actual.seconds * 1e6, rel=1e-3)
    clock.peers = iter([MeasureError("it takes no such extents")])
    assert run(registry, clock).peer is None


def test_a_drift_of_the_clocks_favours_nobody(registry: Registry) -> None:
    """Each sample is slower than the one before it, by more than the tactics differ; by turns it is the same
    for all."""
    names = order(registry)
    clock = Times(registry, {names[3]: 0.9, names[0]: 0.93}, drift=0.002)
    actual = run(registry, clock)
    assert actual.tactic is not None
    assert actual.tactic.kernel == names[3]


def test_failures_are_passed_over_with_their_reason(registry: Registry) -> None:
    names = order(registry)
    of: dict[str, float | Exception] = {names[0]: LaunchError("CUDA error 1"), names[2]: 0.5}
    actual = run(registry, Times(registry, of))
    assert actual.tactic is not None
    assert actual.tactic.kernel == names[2]
    assert actual.failures == [Timing(Tactic(names[0]), None, "CUDA error 1")]
    assert actual.model_seconds is None


def test_a_winner_that_is_wrong_gives_way_to_the_next(registry: Registry) -> None:
    names = order(registry)
    clock = Times(registry, {names[1]: 0.5, names[2]: 0.6})
    clock.wrong = {str(tactic) for tactic in [Tactic(names[1]), *FAMILY.variants(Tactic(names[1]))]}
    actual = run(registry, clock)
    assert actual.tactic is not None
    assert actual.tactic.kernel == names[2]
    assert {failure.tactic.kernel for failure in actual.failures if failure.wrong} == {names[1]}


def test_where_nothing_works_the_first_reason_is_told(registry: Registry) -> None:
    clock = Times(registry, dict.fromkeys(order(registry), LaunchError("no device memory")))
    actual = run(registry, clock)
    assert (actual.tactic, actual.seconds) == (None, None)
    assert actual.reason == f"all {len(actual.failures)} tactics failed, the first: no device memory"


def test_known_failures_are_not_tried_again(registry: Registry) -> None:
    names = order(registry)
    known = Timing(Tactic(names[0]), None, "it broke the CUDA context")
    clock = Times(registry, {})
    actual = run(registry, clock, excluded=[known])
    assert names[0] not in {name for name, _ in clock.quicks}
    assert known in actual.failures


def incumbent(registry: Registry, kernel: str, *unseen: str) -> Entry:
    seen = frozenset(record.name for record in registry.kernels("gemm")) - set(unseen) | {"gone"}
    return Entry(PROBLEM, Tactic(kernel), 1e-3, seen)


def test_a_result_has_seen_the_kernels_that_are_built(registry: Registry) -> None:
    assert run(registry, Times(registry, {})).seen == set(order(registry))


def test_beside_an_incumbent_only_unseen_kernels_are_timed(registry: Registry) -> None:
    names = order(registry)
    tuned = incumbent(registry, names[5], names[1], names[3])
    of = {names[0]: 0.1, names[1]: 0.8, names[3]: 0.7, names[5]: 0.9}
    clock = Times(registry, dict(of))
    actual = run(registry, clock, incumbent=tuned)
    assert {name.partition("@")[0] for name, _ in clock.quicks} == {names[5], names[1], names[3]}
    assert actual.tactic is not None
    assert actual.tactic.kernel == names[3], "the first of all is seen already, and has lost"
    assert actual.seconds == pytest.approx(0.7 * clock.unit)
    assert actual.seen == tuned.seen | {names[1], names[3]}
    stays = run(registry, Times(registry, of | {names[3]: 0.95, names[1]: 0.95}), incumbent=tuned)
    assert stays.tactic is not None
    assert stays.tactic.kernel == names[5], "timed anew, with the others by turns"
    assert stays.seconds == pytest.approx(0.9 * clock.unit)


def test_nothing_is_timed_where_the_model_leaves_no_unseen_kernel(registry: Registry) -> None:
    names = order(registry)
    tuned = incumbent(registry, names[0], names[-1])
    clock = Times(registry, {})
    actual = run(registry, clock, incumbent=tuned, keep=4)
    assert (actual.tactic, actual.seconds, clock.quicks) == (tuned.tactic, tuned.seconds, [])
    assert names[-1] in actual.seen
    assert "nothing was timed" in actual.notes[0]


def test_an_incumbent_that_is_not_built_stays_as_it_is(registry: Registry) -> None:
    clock = Times(registry, {})
    actual = run(registry, clock, incumbent=incumbent(registry, "unbuilt", order(registry)[0]))
    assert (actual.tactic, actual.reason) == (None, "unbuilt, tuned, is not built")
    assert clock.quicks == []


def test_a_lost_gpu_ends_it_and_names_the_tactic(registry: Registry) -> None:
    names = order(registry)
    with pytest.raises(GpuLostError) as caught:
        run(registry, Times(registry, {names[1]: GpuLostError("gone")}))
    assert caught.value.under_way == str(Tactic(names[1]))


def test_the_time_of_a_problem_is_bounded(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = itertools.count()
    monkeypatch.setattr(stages, "time", SimpleNamespace(monotonic=lambda: float(next(seconds))))
    clock = Times(registry, {})
    actual = run(registry, clock, seconds=5.5)
    assert actual.tactic is not None
    screened = {name.partition("@")[0] for name, _ in clock.quicks}
    assert screened == set(order(registry)[: len(screened)])
    assert len(screened) < 10
    assert "were left to the model: 6 s were over" in actual.notes[0]


def test_operands_that_do_not_fit_are_a_reason(registry: Registry) -> None:
    def make(problem: Any) -> Any:
        raise MeasureError("CUDA out of memory")

    actual = search(FAMILY, registry, PROBLEM, H200, make_clock=make)
    assert (actual.tactic, actual.reason, actual.legal) == (None, "CUDA out of memory", 20)


def test_a_problem_that_no_built_kernel_computes(registry: Registry) -> None:
    actual = search(FAMILY, registry, Problem(128, 128, 100), H200, make_clock=Times(registry, {}))
    assert actual.tactic is None
    assert "which is not a multiple of 8" in (actual.reason or "")


def test_turns_go_round_and_leave_out_what_fails() -> None:
    a, b, c = Tactic("a"), Tactic("b"), Tactic("c")
    calls: list[str] = []
    samples: dict[str, Iterator[float]] = {"a": iter([3.0, 1.0, 2.0]), "b": iter([5.0])}

    def timer(tactic: Tactic) -> float:
        calls.append(tactic.kernel)
        actual = next(samples[tactic.kernel], None) if tactic.kernel in samples else 9.0
        if actual is None:
            raise TilewrightError("it failed at last")
        return actual

    trials = Trials()
    trials.by_turns([a, b, c], timer, 3)
    assert calls == ["a", "b", "c", "a", "b", "c", "a", "c"]
    assert trials.seconds(a) == 2.0, "the median"
    assert trials.timed[b] == Timing(b, None, "it failed at last")
    assert trials.fastest([c, b, a], 5) == [a, c]


def test_what_is_wrong_is_told_from_what_fails() -> None:
    def timer(tactic: Tactic) -> float:
        raise (WrongResultError if tactic.kernel == "wrong" else LaunchError)("said")

    trials = Trials()
    trials.measure([Tactic("wrong"), Tactic("fails")], timer)
    assert trials.failures == [
        Timing(Tactic("wrong"), None, "said", wrong=True), Timing(Tactic("fails"), None, "said"),
    ]  # fmt: skip
