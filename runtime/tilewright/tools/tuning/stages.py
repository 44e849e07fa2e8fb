"""The stages in which a problem's tactics are timed: each stage times fewer tactics, and each for longer.

This module needs no GPU and no torch: times come through a `Clock`.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any, Protocol

from tilewright.declarations.tactics import Tactic
from tilewright.errors import GpuLostError, TilewrightError, WrongResultError
from tilewright.tools.tuning.trials import Timing, Trials

if TYPE_CHECKING:
    from tilewright.declarations.table import KernelRecord
    from tilewright.selection.family import Family

# Limits of the model's candidates. Its error is some 15 % in both directions, so that a tactic at more than
# 1.6 times its first is not the fastest. The fastest is nearly always among its first ten
# (benchmarks/results/tuning_quality.md); the limit is generous.
HOPELESS_ESTIMATE = 1.6
KEEP = 40
KEEP_LEAST = 10
# A quick time is off by a few per cent: a tactic that is further behind is not the fastest.
HOPELESS_TIME = 1.3
SEMIFINALISTS = 8  # by quick times; they are timed again in turn, because clocks drift
VARIED = 3  # tactics that are tried with every raster order and swizzle
FINALISTS = 6
SEMIFINAL_ROUNDS = 3
FINAL_ROUNDS = 9
ROUNDS_SECONDS = 1.0  # that all rounds of a stage after the first three may take
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


class StagedTiming:
    """Times one problem's tactics in stages."""

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
        wider = self._legal(self._family.wider, trials.fastest(tactics, VARIED))
        self._screen(wider)
        tactics = [*tactics, *wider]
        # The first is timed while the GPU's clocks still rise; its quick time says least.
        semifinalists = dict.fromkeys([*trials.fastest(tactics, SEMIFINALISTS), tactics[0]])
        best = self._play(list(semifinalists), SEMIFINAL_ROUNDS)[:VARIED]
        varied = self._legal(self._family.variants, [tactic for tactic in best if tactic not in one_wave])
        self._screen(varied)
        ranked = self._play(trials.fastest([*best, *varied], FINALISTS), FINAL_ROUNDS, self._time_peer)
        # If all finalists are wrong, the next of the timed tactics take their place.
        for tactic in [*ranked, *trials.fastest([*tactics, *varied], len(trials.timed))]:
            if trials.seconds(tactic) is not None and self._is_right(tactic):
                return tactic
        return None

    def _legal(self, others: Callable[[Tactic], Iterable[Tactic]], tactics: Iterable[Tactic]) -> list[Tactic]:
        """The variants that `others` makes of each tactic, without those that the kernel does not take."""
        return [
            variant
            for tactic in tactics
            for variant in others(tactic)
            if self._family.misfit_arguments(variant, self._record(tactic.kernel)) is None
        ]

    def _screen(self, tactics: Sequence[Tactic]) -> None:
        """Quick times; what is hopeless against the fastest so far is cut short."""
        trials, deadline = self.trials, time.monotonic() + self._options.seconds
        best = min(
            (timing.seconds for timing in trials.timed.values() if timing.seconds is not None), default=inf
        )
        for number, tactic in enumerate(tactics):
            if time.monotonic() > deadline:
                left = len(tactics) - number
                self.notes.append(
                    f"{left} tactics were left to the model: {self._options.seconds:.0f} s were over"
                )
                return
            limit = self._options.stop * best
            trials.measure([tactic], lambda call, limit=limit: self._clock.quick(call, limit))  # type: ignore[misc]
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
        """Times the peer. There is no time if the peer does not support the problem, for instance its
        extents."""
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
