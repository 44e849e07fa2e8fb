"""What benchmarks that compare several sides share: taking turns, and a copy to compare with."""

from __future__ import annotations

import functools
import statistics
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from tilewright.tools.timing import Replays

Side = TypeVar("Side")

COPIED = 1 << 16  # bytes: copies of no multiple of a large power of two have two thirds of the bandwidth


def medians(
    sides: Mapping[Side, Callable[[], float]], rounds: int, *, rotate: bool = False
) -> dict[Side, float]:
    """The median of each side's samples. Sides take turns, so that a drift of the clocks is the same to all.

    `rotate`: another side begins each round, and the order turns round when all have begun once. Large
    products run at the clock that their power leaves, and take over the heat of what ran before them.
    """
    order = list(sides)
    samples: dict[Side, list[float]] = {side: [] for side in order}
    for number in range(rounds):
        begun, first = divmod(number, len(order)) if rotate else (0, 0)
        turn = order[first:] + order[:first]
        for side in reversed(turn) if begun % 2 else turn:
            samples[side].append(sides[side]())
    return {side: statistics.median(found) for side, found in samples.items()}


def replayed(graph: Replays) -> Callable[[], float]:
    """Samples of a graph that is replayed once before each, so that its kernels' code is in the caches."""

    def sample() -> float:
        graph.replay()
        return graph.seconds()

    return sample


def copy_of(size: int) -> Callable[[], object]:
    """A call that copies on the GPU so that memory moves `size` bytes: half are read, half written."""
    import torch  # noqa: PLC0415 (sides can take turns without)

    source = torch.empty(max(1, size // 2 // COPIED) * COPIED, dtype=torch.uint8, device="cuda")
    return functools.partial(torch.empty_like(source).copy_, source)
