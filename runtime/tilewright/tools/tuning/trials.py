"""Trials: tries tactics and keeps their times, for the search of tuning and for comparisons of groups."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tilewright.declarations.tactics import Tactic
from tilewright.errors import GpuLostError, TilewrightError, WrongResultError

Timer: TypeAlias = Callable[[Tactic], float]
"""Seconds of a tactic's call. Raises TilewrightError where it fails or is wrong."""


@dataclass(frozen=True)
class Timing:
    """One tactic on one problem: its seconds, or why there are none."""

    tactic: Tactic
    seconds: float | None
    failure: str | None = None
    wrong: bool = False  # it ran, and D differed from the reference


class Trials:
    """The times of the tactics tried on one problem."""

    def __init__(self) -> None:
        self.timed: dict[Tactic, Timing] = {}

    def measure(self, tactics: Iterable[Tactic], timer: Timer) -> None:
        """Times those that were not tried before. Raises GpuLostError, which names the tactic."""
        for tactic in tactics:
            if tactic not in self.timed:
                self.timed[tactic] = _timing(tactic, timer)

    def again(self, tactics: Iterable[Tactic], timer: Timer) -> None:
        """Times these once more: what is known of them is replaced."""
        distinct = list(dict.fromkeys(tactics))
        for tactic in distinct:
            self.timed.pop(tactic, None)
        self.measure(distinct, timer)

    def by_turns(
        self,
        tactics: Iterable[Tactic],
        timer: Timer,
        rounds: int,
        *,
        begin: Callable[[], None] = lambda: None,
        earlier: Mapping[Tactic, Sequence[float]] | None = None,
    ) -> dict[Tactic, list[float]]:
        """Times these `rounds` times by turns, so that a drift of the clocks is the same to all; what is
        known of them becomes the median. What fails is not tried again.

        `begin` is called before each round; `earlier` samples, as this answers them, count too.
        """
        samples = {tactic: list((earlier or {}).get(tactic, ())) for tactic in tactics}
        for _ in range(rounds):
            begin()
            for tactic, times in samples.items():
                if tactic in self.timed and self.timed[tactic].seconds is None:
                    continue
                self.timed[tactic] = _timing(tactic, timer)
                if (seconds := self.timed[tactic].seconds) is not None:
                    times.append(seconds)
        for tactic, times in samples.items():
            if self.timed[tactic].seconds is not None:
                self.timed[tactic] = Timing(tactic, statistics.median(times))
        return samples

    def fail(self, tactic: Tactic, failure: str, *, wrong: bool = False) -> None:
        """Takes a tactic out, and says why."""
        self.timed[tactic] = Timing(tactic, None, failure, wrong)

    def fastest(self, tactics: Iterable[Tactic], count: int) -> list[Tactic]:
        """The fastest of these, the best first."""
        timings = [self.timed[tactic] for tactic in dict.fromkeys(tactics) if tactic in self.timed]
        ranked = sorted((timing for timing in timings if timing.seconds is not None), key=_order)
        return [timing.tactic for timing in ranked[:count]]

    def seconds(self, tactic: Tactic) -> float | None:
        return self.timed[tactic].seconds if tactic in self.timed else None

    @property
    def failures(self) -> list[Timing]:
        return [timing for timing in self.timed.values() if timing.seconds is None]


def _timing(tactic: Tactic, timer: Timer) -> Timing:
    try:
        return Timing(tactic, timer(tactic))
    except GpuLostError as error:
        raise error.of(tactic) from None
    except TilewrightError as error:
        return Timing(tactic, None, str(error), isinstance(error, WrongResultError))


def _order(timing: Timing) -> tuple[float, Tactic]:
    return (timing.seconds or 0.0, timing.tactic)
