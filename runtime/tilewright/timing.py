"""Times GPU work: CUDA graphs, cold L2, medians."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import Any

import torch

WARM_UP = 2
GROUPS = 3  # L2 sizes of data between two uses of the same operand


def rotations(bytes_per_call: int, l2_bytes: int, *, least: int = 4, most: int = 256) -> int:
    """How many sets of operands to take in turn, so that a call finds nothing of its own in L2."""
    return max(least, min(most, -(-GROUPS * l2_bytes // max(1, bytes_per_call)) + 1))


def graph_seconds(calls: Sequence[Callable[[], Any]], *, replays: int = 15) -> float:
    """Median seconds of one call: all of `calls` in one CUDA graph, replayed; events around each replay.

    Give each call operands of its own (`rotations`), or the second finds them in L2.
    """
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for call in calls[:WARM_UP]:
            call()
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    kept = []  # what a call returns lives in the graph's memory; freed there, it would be reused
    with torch.cuda.graph(graph):
        for call in calls:
            kept.append(call())
    for _ in range(WARM_UP):
        graph.replay()
    seconds: list[float] = []
    for _ in range(replays):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        seconds.append(start.elapsed_time(end) * 1e-3 / len(calls))
    del kept
    return statistics.median(seconds)
