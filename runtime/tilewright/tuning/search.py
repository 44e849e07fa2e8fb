"""The search for a problem's fastest tactic: what the cost model takes to be hopeless is left out, the rest
is timed in stages, ever fewer tactics ever longer.

This module needs no GPU and no torch: times come through a `Clock`.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from math import inf
from typing import TYPE_CHECKING, Any, Protocol

from tilewright.errors import GpuLostError, TilewrightError, WrongResultError
from tilewright.ops.common.tactics import Tactic
from tilewright.tuning.trials import Timing, Trials

if TYPE_CHECKING:
    from tilewright.device import DeviceProperties
    from tilewright.ops.common.family import Candidate, Family
    from tilewright.registry import Registry
    from tilewright.table import KernelRecord
    from tilewright.tuning.files import Entry

# What the model leaves to be timed. It errs by some 15 %, both ways, so that what it puts at more than 1.6
# times its first is not the fastest; and the fastest is among its first ten nearly always
# (benchmarks/results/tuning_quality.md), of which this is a generous number.
HOPELESS_ESTIMATE = 1.6
KEEP = 40
KEEP_LEAST = 10
# A quick time errs by a few per cent: what is further behind than this is not the fastest.
HOPELESS_TIME = 1.3
SEMIFINALISTS = 8  # by quick times; they are timed again by turns, because clocks drift
VARIED = 3  # of which every raster order and swizzle is tried
FINALISTS = 6
SEMIFINAL_ROUNDS = 3
FINAL_ROUNDS = 9
ROUNDS_SECONDS = 1.0  # that all rounds of a stage may take, but for the first three
MOST_SECONDS = 15.0  # that a problem's quick times may take together


class Clock(Protocol):
    """Times tactics on one problem. Raises TilewrightError where one fails, GpuLostError where nothing runs
    on the GPU any more."""

    def quick(self, tactic: Tactic, limit: float) -> float:
        """Seconds of a call, roughly; no more precise than needed to say that they exceed `limit`."""
        ...

    def again(self, tactic: Tactic) -> float:
        """One more sample of the seconds of a call, more precise than the quick one."""
        ...

    def peer(self) -> float | None:
        """A sample of another library's call for the problem; None where none computes it."""
        ...

    def verify(self, tactic: Tactic) -> None:
        """Raises WrongResultError where the tactic computes something else than the reference."""
        ...


def promising(
    ranked: Sequence[Candidate], factor: float, most: int | None = None, least: int = 1
) -> list[Candidate]:
    """Of the model's order, what it puts within `factor` of its first, and so many at most and at least."""
    limit = factor * ranked[0].estimate.seconds if ranked else 0.0
    near = sum(one.estimate.seconds <= limit for one in ranked)
    return list(ranked[: max(near, least)][:most])


@dataclass(frozen=True)
class Options:
    """How far the search goes."""

    keep: int | None = KEEP  # candidates of the model that are timed at most
    factor: float = HOPELESS_ESTIMATE  # how far behind the model's first they may be
    stop: float = HOPELESS_TIME  # how far behind the fastest a quick time is cut short
    seconds: float = MOST_SECONDS

    @classmethod
    def exhaustive(cls) -> Options:
        """Every legal tactic is timed in full."""
        return cls(keep=None, factor=inf, stop=inf, seconds=inf)


@dataclass(frozen=True)
class Result:
    """What was found for a problem."""

    problem: Any
    tactic: Tactic | None  # the fastest that is right; None where there is none
    seconds: float | None
    legal: int = 0  # tactics of built kernels that compute the problem
    tried: int = 0  # of those, and of their variants
    rank: int | None = None  # of the tactic (but for its variant) in the model's order, from 0
    model: Tactic | None = None  # the model's first
    model_seconds: float | None = None  # measured
    timings: tuple[Timing, ...] = field(
        default=(), repr=False
    )  # of all that were tried, in that order, as they were known at last
    reason: str | None = None  # why there is no tactic
    elapsed: float = 0.0  # seconds that the search took
    peer: float | None = None  # seconds of another library's call, by turns with the finalists
    notes: tuple[str, ...] = ()
    seen: frozenset[str] = field(default=frozenset(), repr=False)
    """The kernels that there were to choose from: all of the problem's kind that were built."""

    @property
    def failures(self) -> list[Timing]:
        return [one for one in self.timings if one.seconds is None]

    def as_json(self) -> dict[str, Any]:
        """For a record."""
        failures = [
            {"tactic": str(one.tactic), "reason": one.failure, "wrong": one.wrong} for one in self.failures
        ]
        return {
            "problem": asdict(self.problem),
            "tactic": None if self.tactic is None else str(self.tactic),
            "us": None if self.seconds is None else round(self.seconds * 1e6, 4),
            "model": None if self.model is None else str(self.model),
            "model_us": None if self.model_seconds is None else round(self.model_seconds * 1e6, 4),
            "peer_us": None if self.peer is None else round(self.peer * 1e6, 4),
            "rank": self.rank,
            "legal": self.legal,
            "tried": self.tried,
            "times": {
                str(one.tactic): round(one.seconds * 1e6, 3)
                for one in self.timings
                if one.seconds is not None
            },
            "failures": failures,
            "reason": self.reason,
            "notes": list(self.notes),
            "seconds": round(self.elapsed, 3),
        }


def weighed(
    family: Family[Any], fitting: Sequence[KernelRecord], problem: Any, device: DeviceProperties
) -> tuple[list[Candidate], list[Tactic]]:
    """The tactics of kernels that compute the problem: in the model's order, and those of kernels that no
    model knows."""
    ranked = family.weigh(fitting, problem, device, lambda _: True)
    names = {one.record.name for one in ranked}
    others = (one for one in fitting if one.name not in names)
    return ranked, [tactic for record in others for tactic in family.candidates(record, problem)]


def candidates(
    ranked: Sequence[Candidate],
    unknown: Sequence[Tactic],
    options: Options,
    incumbent: Entry | None = None,
    near: Iterable[Tactic] = (),
) -> list[Tactic]:
    """What is timed of them; what no model knows is, and what is tuned `near`. With an incumbent: that, and
    what it has not seen."""
    kept = [one.tactic for one in promising(ranked, options.factor, options.keep, KEEP_LEAST)]
    tactics = list(dict.fromkeys([*kept[:1], *near, *kept[1:], *unknown]))
    if incumbent is None:
        return tactics
    unseen = [one for one in tactics if one.kernel not in incumbent.seen and one != incumbent.tactic]
    return [incumbent.tactic, *unseen]


def search(
    family: Family[Any],
    registry: Registry,
    problem: Any,
    device: DeviceProperties,
    *,
    make_clock: Callable[[Any], Clock],
    options: Options | None = None,
    excluded: Collection[Timing] = (),
    incumbent: Entry | None = None,
    near: Iterable[Tactic] = (),
) -> Result:
    """The fastest tactic of the kernels that are built. What fails is passed over, and is in the result.

    `excluded` are failures that are known, as of what broke another process. Beside an incumbent (what is
    tuned for the problem) only kernels that it has not seen are tried: the others have lost to it. `near` are
    tactics that fit, and won for problems like this one: they are tried whatever the model says.

    Raises GpuLostError, and UnsupportedDeviceError where no kernel of the family runs on the GPU.
    """
    started = time.monotonic()
    options = Options() if options is None else options
    records = registry.route(family.name, device)
    fitting = [one for one in family.fitting_kept(registry, records, problem) if registry.is_built(one)]
    ranked, unknown = weighed(family, fitting, problem, device)
    names = {one.name for one in fitting}
    kept = candidates(ranked, unknown, options, incumbent, [one for one in near if one.kernel in names])
    everything = len(ranked) + len(unknown)
    seen = frozenset(
        one.name for one in family.of_kind(registry, records, problem.kind) if registry.is_built(one)
    )
    if incumbent is not None:
        seen |= incumbent.seen
        if incumbent.tactic.kernel not in names:
            return Result(problem, None, None, everything, reason=f"{incumbent.tactic}, tuned, is not built")
        if kept == [incumbent.tactic]:
            note = "by the cost model no other kernel comes near what is tuned: nothing was timed"
            return Result(problem, incumbent.tactic, incumbent.seconds, everything, notes=(note,), seen=seen)
    if not kept:
        built = [record for record in records if registry.is_built(record)]
        why = family.explain(built, problem).strip() or f"no {family.name} kernel for {device.name} is built"
        return Result(problem, None, None, reason=why)
    try:
        clock = make_clock(problem)
    except GpuLostError:
        raise
    except TilewrightError as error:  # as operands that do not fit into memory
        return Result(problem, None, None, everything, reason=str(error))
    hunt = _Hunt(family, registry.record, clock, options, excluded)
    one_wave = {one.tactic for one in ranked if one.estimate.waves == 1}
    best = hunt.run(kept, one_wave)
    order = [one.tactic for one in ranked]
    return Result(
        problem,
        best,
        None if best is None else hunt.trials.seconds(best),
        legal=everything,
        tried=len(hunt.trials.timed),
        rank=_rank(family, order, best),
        model=order[0] if order else None,
        model_seconds=hunt.trials.seconds(order[0]) if order else None,
        timings=tuple(hunt.trials.timed.values()),
        reason=None if best is not None else hunt.why_nothing(),
        elapsed=time.monotonic() - started,
        notes=tuple(hunt.notes),
        seen=seen,
        peer=hunt.peer,
    )


class _Hunt:
    """One problem's search."""

    def __init__(
        self,
        family: Family[Any],
        record: Callable[[str], KernelRecord],
        clock: Clock,
        options: Options,
        excluded: Collection[Timing],
    ) -> None:
        self._family = family
        self._record = record
        self._clock = clock
        self._options = options
        self.notes: list[str] = []
        self._peers: list[float] = []
        self.trials = Trials()
        for timing in excluded:
            self.trials.timed[timing.tactic] = timing

    @property
    def peer(self) -> float | None:
        return statistics.median(self._peers) if self._peers else None

    def run(self, tactics: Sequence[Tactic], one_wave: Collection[Tactic] = ()) -> Tactic | None:
        """The fastest that is right. Tiles of `one_wave` are computed at once, in whatever order."""
        trials = self.trials
        self._screen(tactics)
        # The first is timed while the GPU's clocks still rise; its quick time says least.
        semifinalists = dict.fromkeys([*trials.fastest(tactics, SEMIFINALISTS), tactics[0]])
        best = self._play(list(semifinalists), SEMIFINAL_ROUNDS)[:VARIED]
        varied = [
            variant
            for tactic in best
            if tactic not in one_wave
            for variant in self._family.variants(tactic)
            if self._family.misfit_arguments(variant, self._record(tactic.kernel)) is None
        ]
        self._screen(varied)
        ranked = self._play(trials.fastest([*best, *varied], FINALISTS), FINAL_ROUNDS, self._time_peer)
        # Where all finalists are wrong, the next of those that were timed take their place.
        for tactic in [*ranked, *trials.fastest([*tactics, *varied], len(trials.timed))]:
            if trials.seconds(tactic) is not None and self._is_right(tactic):
                return tactic
        return None

    def _screen(self, tactics: Sequence[Tactic]) -> None:
        """Quick times; what is hopeless against the fastest so far is cut short."""
        trials, deadline = self.trials, time.monotonic() + self._options.seconds
        best = min((one.seconds for one in trials.timed.values() if one.seconds is not None), default=inf)
        for number, tactic in enumerate(tactics):
            if time.monotonic() > deadline:
                left = len(tactics) - number
                self.notes.append(
                    f"{left} tactics were left to the model: {self._options.seconds:.0f} s were over"
                )
                return
            limit = self._options.stop * best
            trials.measure([tactic], lambda one, limit=limit: self._clock.quick(one, limit))  # type: ignore[misc]
            best = min(best, trials.seconds(tactic) or inf)

    def _play(
        self, tactics: Sequence[Tactic], rounds: int, begin: Callable[[], None] = lambda: None
    ) -> list[Tactic]:
        """Times by turns; answers the order, the fastest first."""
        if not tactics:
            return []
        first, again = SEMIFINAL_ROUNDS, self._clock.again
        started = time.monotonic()
        samples = self.trials.by_turns(tactics, again, first, begin=begin)
        taken = (time.monotonic() - started) / first
        more = min(rounds, int(min(ROUNDS_SECONDS, self._options.seconds) / max(taken, 1e-9)))
        self.trials.by_turns(tactics, again, max(0, more - first), begin=begin, earlier=samples)
        return self.trials.fastest(tactics, len(tactics))

    def _time_peer(self) -> None:
        """What it cannot compute, as of extents that it does not take, has no peer."""
        try:
            seconds = self._clock.peer()
        except GpuLostError:
            raise
        except TilewrightError:
            seconds = None
        if seconds is not None:
            self._peers.append(seconds)

    def _is_right(self, tactic: Tactic) -> bool:
        try:
            self._clock.verify(tactic)
        except GpuLostError as error:
            raise error.of(tactic) from None
        except TilewrightError as error:
            self.trials.fail(tactic, str(error), wrong=isinstance(error, WrongResultError))
            return False
        return True

    def why_nothing(self) -> str:
        failures = self.trials.failures
        return f"all {len(failures)} tactics failed, the first: {failures[0].failure}"


def _rank(family: Family[Any], order: Sequence[Tactic], best: Tactic | None) -> int | None:
    """Where the tactic, or the one that it is a variant of, stands in the order."""
    if best is None:
        return None
    near = (number for number, one in enumerate(order) if one.kernel == best.kernel)
    return next((number for number in near if best in family.variants(order[number])), None)
