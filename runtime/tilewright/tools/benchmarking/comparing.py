"""Each group's best tactic for a problem, found by measuring all that fit."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any, TypeAlias

from tilewright.architectures.device import DeviceProperties
from tilewright.declarations.tactics import Tactic
from tilewright.errors import GpuLostError, TilewrightError
from tilewright.selection.family import Family
from tilewright.tools.benchmarking.groups import Standing
from tilewright.tools.tuning.search import promising
from tilewright.tools.tuning.trials import Timer, Timing, Trials

Meter: TypeAlias = Callable[[Any], Timer]
"""The timer of a problem: a comparison uses the GPU only through it."""

# The fastest tactics of both groups are measured again, in turn: the best of many times is partly luck, and
# clocks fall while the GPU grows warm.
FINALISTS = 3
HOPELESS = 3.0  # `prune` leaves out tactics with more than this many times the group's best estimate


@dataclass(frozen=True)
class Side:
    """A group on one problem."""

    best: Timing | None
    timings: list[Timing] = field(default_factory=list)  # of all its tactics, in the order measured
    pruned: int = 0  # tactics that were left to the cost model
    reason: str | None = None  # why there is no best

    @property
    def failures(self) -> list[Timing]:
        return [timing for timing in self.timings if timing.seconds is None]


@dataclass(frozen=True)
class Comparison:
    """Both groups on one problem."""

    problem: Any
    a: Side
    b: Side

    @property
    def speedup(self) -> float | None:
        """B's time over A's: more than 1 if A is faster."""
        times = [side.best.seconds for side in (self.a, self.b) if side.best and side.best.seconds]
        return times[1] / times[0] if len(times) == 2 else None


@dataclass(frozen=True)
class Options:
    """The options of a search."""

    prune: bool = False  # leaves out tactics that are `HOPELESS` by the cost model
    rearrange: bool = False  # tries the finalists with every raster order and swizzle, too


def compare(
    family: Family[Any],
    problems: Iterable[Any],
    standings: tuple[Standing, Standing],
    *,
    device: DeviceProperties,
    meter: Meter,
    options: Options,
) -> Iterator[Comparison]:
    """Compares the built kernels of two groups on each problem in turn. Raises GpuLostError."""
    for problem in problems:
        yield _Contest(family, problem, device, options).hold(standings, meter)


class _Contest:
    """One problem's comparison."""

    def __init__(self, family: Family[Any], problem: Any, device: DeviceProperties, options: Options) -> None:
        self.family = family
        self.problem = problem
        self.device = device
        self.options = options
        self.trials = Trials()  # a tactic of both groups is measured once

    def hold(self, standings: tuple[Standing, Standing], meter: Meter) -> Comparison:
        entered = [self._tactics(standing) for standing in standings]
        tactics = [kept for kept, _ in entered]
        timer = self._timer(meter) if any(tactics) else None
        if isinstance(timer, str):
            return Comparison(self.problem, Side(None, reason=timer), Side(None, reason=timer))
        finals = [self._finalists(side) for side in tactics] if timer is None else self._run(tactics, timer)
        a, b = (
            self._side(standing, side, pruned, final)
            for standing, (side, pruned), final in zip(standings, entered, finals, strict=True)
        )
        return Comparison(self.problem, a, b)

    def _tactics(self, standing: Standing) -> tuple[list[Tactic], int]:
        """The tactics of a group that are measured, and the number of those pruned."""
        ranked = self.family.rank(standing.built, self.problem, self.device)
        kept = promising(ranked, HOPELESS if self.options.prune else inf)
        return [candidate.tactic for candidate in kept], len(ranked) - len(kept)

    def _timer(self, meter: Meter) -> Timer | str:
        """The problem's timer, or why there is none: its operands may not fit into memory."""
        try:
            return meter(self.problem)
        except GpuLostError:
            raise
        except TilewrightError as error:
            return str(error)

    def _run(self, tactics: Sequence[list[Tactic]], timer: Timer) -> list[list[Tactic]]:
        """Measures all tactics, and each group's fastest again; returns the latter."""
        self.trials.measure(itertools.chain(*tactics), timer)
        if self.options.rearrange:
            for side in tactics:
                more = [variant for best in self._finalists(side) for variant in self.family.variants(best)]
                side += [tactic for tactic in more if tactic not in side]
                self.trials.measure(more, timer)
        finals = [self._finalists(side) for side in tactics]
        turns = [tactic for turn in itertools.zip_longest(*finals) for tactic in turn if tactic]
        self.trials.again(turns, timer)
        return finals

    def _finalists(self, tactics: Iterable[Tactic]) -> list[Tactic]:
        return self.trials.fastest(tactics, FINALISTS)

    def _side(
        self, standing: Standing, tactics: Sequence[Tactic], pruned: int, finalists: Iterable[Tactic]
    ) -> Side:
        timings = [self.trials.timed[tactic] for tactic in tactics]
        best = next(iter(self._finalists(finalists)), None)
        reason = None
        if not tactics:
            reason = self.family.explain(standing.built, self.problem).strip() or "nothing of it is built"
        elif best is None:
            failures = [timing.failure for timing in timings if timing.failure is not None]
            reason = f"all {len(tactics)} tactics failed, the first: {failures[0]}"
        return Side(None if best is None else self.trials.timed[best], timings, pruned, reason)
