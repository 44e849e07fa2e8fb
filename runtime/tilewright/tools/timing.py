"""Times GPU work: CUDA graphs, cold L2, medians."""

from __future__ import annotations

import contextlib
import functools
import gc
import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from tilewright.tools.cuda_graph import CudaGraph

WARM_UP = 2
HEAD_START_CYCLES = 200_000  # 0.1 ms
# L2 sizes of data between two uses of the same operand. L2 does not replace the oldest line first: if 150 MB
# are read in turn, an H200 still finds some of them in its 60 MB, so that products of 50 MB seemed up to 12 %
# faster alone than beside others.
GROUPS = 6


def rotations(bytes_per_call: int, l2_bytes: int, *, least: int = 4, most: int = 256) -> int:
    """The number of sets of operands to use in turn, so that no operand of a call is in L2."""
    return max(least, min(most, -(-GROUPS * l2_bytes // max(1, bytes_per_call)) + 1))


@functools.cache
def _side_stream(device: int) -> torch.cuda.Stream:
    """The stream of all captures: each stream that an op runs on has a workspace of its own."""
    return torch.cuda.Stream(device)


@contextlib.contextmanager
def _no_collecting() -> Iterator[None]:
    """Disables garbage collection, which could free an object of CUDA during a capture."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


class Replays:
    """Calls in one CUDA graph, to be replayed and timed again and again.

    Give each call its own operands (`rotations`): otherwise the second call finds them in L2. The first call
    of a kernel loads it, which is not possible during a capture, so that `warm_up` calls run before.
    `pool` is the memory of another graph (`Replays.pool`) that is not replayed at the same time. With
    `wait=False` the GPU may still be busy with earlier work while calls are captured.
    """

    def __init__(
        self,
        calls: Sequence[Callable[[], Any]],
        *,
        warm_up: int = WARM_UP,
        pool: torch.cuda.MemPool | None = None,
        wait: bool = True,
    ) -> None:
        self.calls = len(calls)  # in one replay
        self._graph = CudaGraph()
        self._results: list[Any] = []
        self.pool = torch.cuda.MemPool() if pool is None else pool
        stream = _side_stream(torch.cuda.current_device())
        stream.wait_stream(torch.cuda.current_stream())
        try:
            with torch.cuda.stream(stream):
                for call in calls[:warm_up]:
                    call()
                if wait:
                    torch.cuda.synchronize()
                with _no_collecting(), self._graph.capture(self.pool):
                    # A result that is freed within the capture would be memory for the next call's.
                    self._results = [call() for call in calls]
        finally:
            torch.cuda.current_stream().wait_stream(stream)

    def replay(self) -> None:
        self._graph.replay()

    def seconds(self, replays: int = 1, *, ahead: bool = False) -> float:
        """Seconds of one call, by events around `count` replays in a row. `ahead`: the GPU waits first, so
        that late launches of a busy host do not count."""
        if ahead:
            torch.cuda._sleep(HEAD_START_CYCLES)
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        for _ in range(replays):
            self.replay()
        end.record()
        end.synchronize()
        return float(start.elapsed_time(end)) * 1e-3 / (self.calls * replays)


def graph_seconds(calls: Sequence[Callable[[], Any]], *, replays: int = 15) -> float:
    """Median seconds of one call: all of `calls` in one CUDA graph, replayed; events around each replay."""
    graph = Replays(calls)
    for _ in range(WARM_UP):
        graph.replay()
    return statistics.median(graph.seconds() for _ in range(replays))
