"""The clock of tuning on this process's GPU: CUDA graphs of calls, operands that L2 does not hold."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from tilewright import ops, timing
from tilewright.benchmarking.measuring import refusals
from tilewright.device import DeviceProperties
from tilewright.ops.common import measuring
from tilewright.ops.common.tactics import Tactic
from tilewright.timing import Replays

QUICK_REPLAYS = 3
SAMPLE_SECONDS = 1e-3  # of GPU work that one sample takes at least: events err by a microsecond
MOST_REPLAYS = 8  # of a sample
# A replay of this length is timed at once: what the first one does beside (the graph's upload) is little.
LONG_SECONDS = 5e-3
# A call of this length is repeated no more often than a cold L2 asks for.
LONG_CALL_SECONDS = 5e-4


class GpuClock:
    """A `Clock` of the ops of the context in use. D is checked by `verify` alone.

    A tactic's graph is made once, and all share the memory of the first: one is replayed at a time.
    """

    def __init__(self, family: str, problem: Any, device: DeviceProperties, seed: int) -> None:
        torch.cuda.empty_cache()  # what the problem before has left: its operands were of other sizes
        with refusals(f"operands of {problem}"):
            of_family = ops.part(family, "measuring")
            self._operands = measuring.make_operands(of_family, problem, device, seed)
            torch.cuda.synchronize()
        self._least = timing.rotations(problem.bytes, device.l2_bytes, least=2)
        self._graphs: dict[Tactic, Replays] = {}
        self._anchor: Replays | None = None  # whose memory the others use, too

    def quick(self, tactic: Tactic, limit: float) -> float:
        """The least of a few replays. The first that is beyond `limit` ends them."""
        with refusals(str(tactic)):
            graph = self._graph(tactic)
            if limit * graph.calls < LONG_SECONDS or limit == float("inf"):
                graph.replay()
            found = [graph.seconds()]
            while found[-1] <= limit and len(found) < QUICK_REPLAYS:
                if sum(found) * graph.calls > LONG_SECONDS:
                    break
                found.append(graph.seconds())
        seconds = min(found)
        if seconds > LONG_CALL_SECONDS and self._least < len(self._operands):
            self._operands = self._operands[: self._least]
        return seconds

    def again(self, tactic: Tactic) -> float:
        """The median of replays that take a millisecond together, after one that is not timed."""
        with refusals(str(tactic)):
            graph = self._graph(tactic)
            first = graph.seconds()
            if first * graph.calls > LONG_SECONDS:
                return first
            count = max(1, min(MOST_REPLAYS, round(SAMPLE_SECONDS / (first * graph.calls))))
            return statistics.median(graph.seconds() for _ in range(count))

    def verify(self, tactic: Tactic) -> None:
        with refusals(str(tactic)):
            measuring.checked(self._operands[0], tactic)

    def _graph(self, tactic: Tactic) -> Replays:
        found = self._graphs.get(tactic)
        # Where calls proved to be long, graphs that were made before hold more of them than the others; times
        # of a call are the same but for the replay's own cost, which is little against them.
        if found is None:
            calls = [partial(one.call, tactic) for one in self._operands]
            pool = None if self._anchor is None else self._anchor.pool
            found = self._graphs[tactic] = Replays(calls, warm_up=1, pool=pool)
            self._anchor = self._anchor or found
        return found


def on_gpu(family: str, device: DeviceProperties, seed: int = 0) -> Callable[[Any], GpuClock]:
    """Makes clocks of a family's problems on the current GPU, with random data of `seed`."""
    return lambda problem: GpuClock(family, problem, device, seed)
