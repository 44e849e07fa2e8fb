"""The clock of tuning on this process's GPU: CUDA graphs of calls, operands that L2 does not hold."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from tilewright.architectures.device import DeviceProperties
from tilewright.declarations import catalog
from tilewright.declarations.tactics import Tactic
from tilewright.tools import measuring, timing
from tilewright.tools.timing import Replays
from tilewright.tools.trying import refusals

QUICK_REPLAYS = 3
SAMPLE_SECONDS = 3e-4  # the least GPU work of one sample: events are off by up to a microsecond
MOST_REPLAYS = 8  # of a sample
# A replay of this length is timed at once: the extra work of the first replay (the graph's upload) is small.
LONG_SECONDS = 5e-3
# A call of this length is repeated only as often as a cold L2 requires.
LONG_CALL_SECONDS = 5e-4


class GpuClock:
    """A `Clock` of the ops of the context in use. D is checked by `verify` alone.

    A tactic's graph is made once, and all share the memory of the first: one is replayed at a time.
    """

    def __init__(self, family: str, problem: Any, device: DeviceProperties, seed: int) -> None:
        torch.cuda.empty_cache()  # memory of the previous problem, whose operands had other sizes
        with refusals(f"operands of {problem}"):
            of_family = catalog.family_module(family, "measuring")
            self._operands = measuring.make_operands(of_family, problem, device, seed)
            torch.cuda.synchronize()
        self._least = timing.rotations(problem.bytes, device.l2_bytes, least=2)
        self._peer = measuring.peer_of(of_family, problem)
        self._graphs: dict[Tactic | None, Replays] = {}  # None stands for the peer
        self._taken: dict[Tactic | None, float] = {}  # seconds of a replay
        self._anchor: Replays | None = None  # whose memory the others use, too

    def quick(self, tactic: Tactic, limit: float) -> float:
        """The least of a few replays. The first that is beyond `limit` ends them."""
        with refusals(str(tactic)):
            graph = self._graph(tactic)
            if limit * graph.calls < LONG_SECONDS or limit == float("inf"):
                graph.replay()
            samples = [graph.seconds(ahead=True)]
            while samples[-1] <= limit and len(samples) < QUICK_REPLAYS:
                if sum(samples) * graph.calls > LONG_SECONDS:
                    break
                samples.append(graph.seconds(ahead=True))
        seconds = min(samples)
        self._taken[tactic] = seconds * graph.calls
        if seconds > LONG_CALL_SECONDS and self._least < len(self._operands):
            self._operands = self._operands[: self._least]
        return seconds

    def again(self, tactic: Tactic) -> float:
        """The mean of replays in a row that take a third of a millisecond together."""
        with refusals(str(tactic)):
            return self._sample(tactic)

    def peer(self) -> float | None:
        if self._peer is None:
            return None
        name, call = self._peer
        with refusals(name):
            if None not in self._graphs:
                for operand in self._operands:  # it may make operands of its own, ahead of its timing
                    call(operand)
            return self._sample(None)

    def _sample(self, tactic: Tactic | None) -> float:
        graph = self._graph(tactic)
        if tactic not in self._taken:
            graph.replay()
            self._taken[tactic] = graph.seconds() * graph.calls
        count = max(1, min(MOST_REPLAYS, round(SAMPLE_SECONDS / self._taken[tactic])))
        return graph.seconds(count, ahead=True)

    def verify(self, tactic: Tactic) -> None:
        with refusals(str(tactic)):
            measuring.checked(self._operands[0], tactic)

    def _graph(self, tactic: Tactic | None) -> Replays:
        replays = self._graphs.get(tactic)
        # Where calls proved to be long, graphs that were made before hold more of them than the others; times
        # of a call differ only by the replay's own cost, which is small beside them.
        if replays is None:
            calls = [self._call(operand, tactic) for operand in self._operands]
            pool = None if self._anchor is None else self._anchor.pool
            replays = self._graphs[tactic] = Replays(calls, warm_up=1, pool=pool)
            self._anchor = self._anchor or replays
        return replays

    def _call(self, operands: measuring.Operands, tactic: Tactic | None) -> Callable[[], Any]:
        if tactic is not None:
            return partial(operands.call, tactic)
        assert self._peer is not None
        return partial(self._peer[1], operands)


def on_gpu(family: str, device: DeviceProperties, seed: int = 0) -> Callable[[Any], GpuClock]:
    """Makes clocks of a family's problems on the current GPU, with random data of `seed`."""
    return lambda problem: GpuClock(family, problem, device, seed)
