"""CUDA graphs of single launches, warm and cold, of all sides of a problem, timed in turn."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import Any, TypeVar

import torch
from benchmarks.lib import in_turn, ratios
from benchmarks.lib.launch_cases import Case, OtherKernels

from tilewright.tools.timing import Replays

Side = TypeVar("Side")
Key = tuple[str, Hashable]  # a measure and a side

MEASURES = ("warm", "cold")
BETWEEN = "between"  # names the other kernels alone, among the sides that take turns
COLD_LAUNCHES = 16  # of a graph: the other kernels overwrite L2, so that more sets are not needed
LEAST_LAUNCHES = 4  # of a graph of long products
ENOUGH_SECONDS = 1e-3  # of a graph's products: longer products need fewer launches
# Each graph has a sample in a round. There are ROUNDS rounds; for long products as many as take
# SAMPLED_SECONDS, at least LEAST_ROUNDS. In twelve rounds each of two or three graphs, as one measure of two
# sides has, begins equally often, in both orders.
ROUNDS, LEAST_ROUNDS, SAMPLED_SECONDS = 12, 4, 0.2
# The same number of rounds is added again and again until the error of every ratio is at most ERROR, a share
# of the ratio, or until all rounds would take longer than MORE_SECONDS. An error is about two standard
# errors.
ERROR, MORE_SECONDS = 0.02, 0.04
SHORT_ROUND = 0.01  # seconds; in shorter rounds a replay before each warm sample fills the caches
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
        self._graphs: dict[Key, Replays] = {}
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
        graphs = {measure: self._graphs[measure, side] for measure in self._measures}
        return {measure: min(queued_seconds([graph] * SCREENED)) for measure, graph in graphs.items()}

    def microseconds(self) -> dict[Key, list[float]]:
        """Microseconds of a launch in each round, without the other kernels' time, by measure and side."""
        rough = dict(zip(self._graphs, queued_seconds([*self._graphs.values()]), strict=True))
        replay_seconds = {key: seconds * self._graphs[key].calls for key, seconds in rough.items()}
        round_seconds = sum(replay_seconds.values())
        warm = [key for key in rough if key[0] == "warm" and round_seconds < SHORT_ROUND]
        round_seconds += sum(replay_seconds[key] for key in warm)
        settling = in_turn.settling_rounds(round_seconds, longest(rough))
        rounds = rounds_of(round_seconds)
        samples = in_rounds(self._graphs, range(-settling, rounds), warm)
        samples = {key: seconds[settling:] for key, seconds in samples.items()}
        for first in range(rounds, int(MORE_SECONDS / round_seconds) - rounds + 1, rounds):
            if is_precise(net_times(samples)):
                break
            for key, more in in_rounds(self._graphs, range(first, first + rounds), warm).items():
                samples[key] += more
        return net_times(samples)


def queued_seconds(graphs: Sequence[Replays]) -> list[float]:
    """Seconds of a call of each graph, replayed in this order. All replays are enqueued at once, after a
    replay of the first graph that is not timed: a sample that begins on an idle GPU includes the time in
    which the host launches the graph, which varies."""
    events = [torch.cuda.Event(enable_timing=True) for _ in range(len(graphs) + 1)]
    graphs[0].replay()
    events[0].record()
    for graph, event in zip(graphs, events[1:], strict=True):
        graph.replay()
        event.record()
    events[-1].synchronize()
    return [
        start.elapsed_time(end) * 1e-3 / graph.calls
        for graph, (start, end) in zip(graphs, itertools.pairwise(events), strict=True)
    ]


def in_rounds(
    graphs: Mapping[Side, Replays], numbers: range, warm: Collection[Side] = ()
) -> dict[Side, list[float]]:
    """Seconds of a call of each graph in each of these rounds. Before a sample of a warm side its graph is
    replayed once, so that its code is in the caches."""
    queue = [
        (side, is_timed)
        for number in numbers
        for side in in_turn.turn([*graphs], number)
        for is_timed in ((False, True) if side in warm else (True,))
    ]
    samples: dict[Side, list[float]] = {side: [] for side in graphs}
    replays = queued_seconds([graphs[side] for side, _ in queue])
    for (side, is_timed), seconds in zip(queue, replays, strict=True):
        if is_timed:
            samples[side].append(seconds)
    return samples


def rounds_of(seconds: float) -> int:
    """The least number of rounds of samples, if a round takes `seconds`."""
    return max(LEAST_ROUNDS, min(ROUNDS, int(SAMPLED_SECONDS / seconds)))


def longest(seconds: Mapping[Key, float]) -> float:
    """The longest time of a launch, without the other kernels' time: these do not lower the clocks."""
    between = seconds.get(("cold", BETWEEN), 0.0)
    return max(time - between if measure == "cold" else time for (measure, _), time in seconds.items())


def is_precise(times: Mapping[Key, Sequence[float]]) -> bool:
    """Whether the error of each side's ratio to the first side of its measure is at most ERROR."""
    first: dict[str, Sequence[float]] = {}
    for (measure, _), rounds in times.items():
        ratio, error = ratios.of_rounds(rounds, first.setdefault(measure, rounds))
        if error > ERROR * ratio:
            return False
    return True


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


def net_times(seconds: Mapping[Key, Sequence[float]]) -> dict[Key, list[float]]:
    """Microseconds of launches in each round, by measure and side; cold ones less the median time of the
    other kernels alone. Raises ValueError if nothing is left in a round."""
    between = statistics.median(seconds.get(("cold", BETWEEN), [0.0]))  # absent if nothing is measured cold
    return {
        (measure, side): [
            ratios.net_microseconds(total, between if measure == "cold" else 0.0) for total in rounds
        ]
        for (measure, side), rounds in seconds.items()
        if side != BETWEEN
    }


def free_memory() -> None:
    """Gives torch's unused memory back, if it is much. Otherwise the next problem's operands take it: to
    allocate and to free it anew takes longer than to time a small product."""
    if torch.cuda.memory_reserved() > MOST_RESERVED:
        torch.cuda.empty_cache()
