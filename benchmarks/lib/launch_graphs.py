"""CUDA graphs of single launches, warm and cold, of all sides of a problem, timed in turn."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import torch
from benchmarks.lib import in_turn, ratios
from benchmarks.lib.launch_cases import Case, OtherKernels

from tilewright.tools.timing import Replays

MEASURES = ("warm", "cold")
BETWEEN = "between"  # names the other kernels alone, among the sides that take turns
COLD_LAUNCHES = 16  # of a graph: the other kernels overwrite L2, so that more sets are not needed
LEAST_LAUNCHES = 4  # of a graph of long products
ENOUGH_SECONDS = 1e-3  # of a graph's products: longer products need fewer launches
ROUNDS, LEAST_ROUNDS = 11, 4  # replays of each side in turn; of long products fewer
SAMPLED_SECONDS = 0.2  # of all samples of a problem, which decide how many rounds there are
SHORT_ROUND = 0.01  # seconds of a round in which each warm sample is behind a replay that fills the caches
SCREENED = 3  # replays of each tactic before the best are timed in turn
MOST_RESERVED = 48 * 10**9  # bytes that torch may keep from one problem to the next


class Between:
    """The other kernels, and their graphs. All graphs of a run share one pool of memory, which the next
    problem finds allocated."""

    def __init__(self) -> None:
        self.kernels = OtherKernels()
        self.pool = torch.cuda.MemPool()
        self._alone: dict[int, Replays] = {}

    def alone(self, launches: int) -> Replays:
        """A graph of the other kernels alone, as often as a graph of cold launches runs them."""
        if launches not in self._alone:
            self._alone[launches] = Replays([self.kernels] * launches, pool=self.pool)
        return self._alone[launches]


class Graphs:
    """Graphs of one problem's calls, by measure and side."""

    def __init__(self, case: Case, between: Between, measures: Sequence[str] = MEASURES) -> None:
        self._case, self._between, self._measures = case, between, measures
        self._launches = min(launches_for(seconds_of(case)), len(case.sets))
        self._graphs: dict[tuple[str, Hashable], Replays] = {}
        if "cold" in measures:
            self._graphs["cold", BETWEEN] = between.alone(self._launches)

    def add(self, side: Hashable, call: Callable[[Any], Any]) -> None:
        calls = {
            "warm": lambda: self._case.calls(call),
            "cold": lambda: [*map(self._between.kernels.before, self._case.calls(call, self._launches))],
        }
        for measure in self._measures:
            self._graphs[measure, side] = Replays(calls[measure](), pool=self._between.pool)

    def remove(self, side: Hashable) -> None:
        for measure in self._measures:
            del self._graphs[measure, side]

    def screened(self, side: Hashable) -> dict[str, float]:
        """A rough time of a side by measure, in seconds; of a cold launch with the other kernels."""
        samples = {measure: sample_of(measure, self._graphs[measure, side]) for measure in self._measures}
        return {measure: min(sample() for _ in range(SCREENED)) for measure, sample in samples.items()}

    def microseconds(self) -> dict[tuple[str, Hashable], float]:
        """Medians of replays in turn, without the other kernels' time, by measure and side."""
        calls = {key: graph.seconds() for key, graph in self._graphs.items()}
        of_round = sum(seconds * self._graphs[key].calls for key, seconds in calls.items())
        short = of_round < SHORT_ROUND
        samples = {
            (measure, side): sample_of(measure if short else "cold", graph)
            for (measure, side), graph in self._graphs.items()
        }
        replayed = 2 * of_round if short else of_round  # warm samples of short graphs are behind a replay
        settling = in_turn.settling_rounds(replayed, max(calls.values()))
        return net_times(in_turn.medians(samples, rounds_of(of_round), rotate=True, settling=settling))


def sample_of(measure: str, graph: Replays) -> Callable[[], float]:
    """Samples of a graph. Before a warm one it is replayed once, so that its code is in the caches."""
    return in_turn.replayed(graph) if measure == "warm" else graph.seconds


def rounds_of(seconds: float) -> int:
    """The number of rounds of samples, if a round takes `seconds`."""
    return max(LEAST_ROUNDS, min(ROUNDS, int(SAMPLED_SECONDS / seconds)))


def seconds_of(case: Case) -> float:
    """A rough time of one launch of ours, whose kernel has run before."""
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    case.ours(case.sets[0])
    end.record()
    end.synchronize()
    return float(start.elapsed_time(end)) * 1e-3


def launches_for(seconds: float) -> int:
    """Launches of a graph of cold launches that take so long each."""
    return max(LEAST_LAUNCHES, min(COLD_LAUNCHES, math.ceil(ENOUGH_SECONDS / seconds)))


def net_times(seconds: Mapping[tuple[str, Hashable], float]) -> dict[tuple[str, Hashable], float]:
    """Microseconds of launches by measure and side; cold ones less the time of the other kernels alone."""
    between = seconds.get(("cold", BETWEEN), 0.0)  # absent if nothing is measured cold
    return {
        (measure, side): ratios.net_microseconds(total, between if measure == "cold" else 0.0)
        for (measure, side), total in seconds.items()
        if side != BETWEEN
    }


def free_memory() -> None:
    """Gives torch's unused memory back, if it is much. Otherwise the next problem's operands take it: to
    allocate and to free it anew takes longer than to time a small product."""
    if torch.cuda.memory_reserved() > MOST_RESERVED:
        torch.cuda.empty_cache()
