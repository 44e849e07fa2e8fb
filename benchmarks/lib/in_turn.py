"""What benchmarks that compare several sides share: taking turns, and a copy to compare with."""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from tilewright.tools.timing import Replays

Side = TypeVar("Side")

COPIED = 1 << 16  # bytes: copies of no multiple of a large power of two have two thirds of the bandwidth
# Pauses and float64 references leave a clock that a busy GPU does not keep: within 0.06 to 0.1 s of large
# products the power limit takes an H200 from 1,980 to 1,340 MHz. Of calls this long, sides take turns for so
# many seconds before a sample counts. Among samples of the time before, a median falls on either clock: the
# same two kernels had ratios of 0.90 to 1.01.
LONG_SECONDS, SETTLING_SECONDS = 2e-5, 0.1


def medians(
    sides: Mapping[Side, Callable[[], float]], rounds: int, *, rotate: bool = False, settling: int = 0
) -> dict[Side, float]:
    """The median of each side's samples. Sides take turns, so that a drift of the clocks is the same to all.

    `rotate`: in the order of `turn`. `settling`: rounds before, whose samples do not count.
    """
    order = list(sides)
    samples: dict[Side, list[float]] = {side: [] for side in order}
    for number in range(-settling, rounds):
        for side in turn(order, number) if rotate else order:
            sample = sides[side]()
            if number >= 0:
                samples[side].append(sample)
    return {side: statistics.median(counted) for side, counted in samples.items()}


def turn(sides: Sequence[Side], number: int) -> list[Side]:
    """The order of the sides in a round: another side begins each round, and the order is reversed when all
    have begun once. So no side always follows the same one: a large product runs at a clock that also depends
    on the heat of what ran before it."""
    begun, first = divmod(number, len(sides))
    order = [*sides[first:], *sides[:first]]
    return order[::-1] if begun % 2 else order


def settling_rounds(round_seconds: float, longest_call: float, *, short: float = 0.0) -> int:
    """Rounds until clocks are those of a busy GPU, if a round takes `round_seconds`. `short`: seconds before
    calls that are not long."""
    return math.ceil((SETTLING_SECONDS if longest_call > LONG_SECONDS else short) / round_seconds)


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


class Flushed:
    """Makes samples of graphs, before each of which other memory is read, so that L2 holds no operand."""

    def __init__(self, size: int = 200 * 2**20) -> None:
        import torch  # noqa: PLC0415 (sides can take turns without)

        self._memory = torch.ones(size // 4, device="cuda")

    def __call__(self, graph: Replays) -> Callable[[], float]:
        def sample() -> float:
            self._memory.sum()
            return graph.seconds()

        return sample
