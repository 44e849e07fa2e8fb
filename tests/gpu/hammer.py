"""The hammer: one call again and again, each into memory that was not touched for long, while another stream
fills memory; all results compared to the bit on the GPU.

A race between warps shows when memory answers late: when stores miss the TLBs, and wait behind the stores of
another stream. So each run writes pages of an arena of many gigabytes that nothing has touched since the TLBs
were cleared, and that hold poison. benchmarks/results/races.md compares ways to delay memory.
"""

from __future__ import annotations

import functools
import itertools
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol

import torch

PAGE = 2 * 2**20  # bytes, of memory that the TLB maps as a whole
ALIGNED = 512  # bytes, at whose multiples each tensor of a result begins
_POISON = -1  # as words: NaN in every type but FP4 and integers
_BATCH, _BATCH_BYTES = 128, 2**31  # runs that are compared together, at most
_FILLS = 2  # fills of the neighbour's memory that are queued
_PIECE = 2**26  # bytes that one kernel fills where the fills have all SMs
_SMS = 16  # SMs that the fills have in every other batch
_UNMAPPED = 2**25  # bytes; torch asks the driver for as many, and keeps no smaller ones apart

Views = Mapping[str, torch.Tensor]


class Places:
    """Places in an arena for all that a call writes, one behind the other. All of them are poison."""

    def __init__(self, arena: torch.Tensor, written: Views, page: int = PAGE) -> None:
        """`arena` is of bytes, and poison; `written` are tensors as the call writes them, of any place."""
        self._like, self._begins, end = dict(written), {}, 0
        for name, tensor in written.items():
            self._begins[name] = end
            end += -(-tensor.untyped_storage().nbytes() // ALIGNED) * ALIGNED
        self.bytes = end
        pitch = -(-end // page) * page
        self.count = arena.numel() // pitch
        assert self.count, f"an arena of {arena.numel()} bytes holds no result of {end}"
        self._rows = arena[: self.count * pitch].view(self.count, pitch)
        self.words = self._rows.view(torch.int64)[:, : end // 8]

    def batches(self) -> list[range]:
        """Places whose results are compared together, far from each other. No place is in two batches."""
        size = max(1, min(_BATCH, _BATCH_BYTES // self.bytes, self.count))
        step = self.count // size
        return [range(first, size * step, step) for first in range(step)]

    def views(self, place: int) -> dict[str, torch.Tensor]:
        """The tensors that the call writes at a place: as the given ones, with what lies around them."""
        row, views = self._rows[place], {}
        for name, like in self._like.items():
            begin, size = self._begins[name], like.untyped_storage().nbytes()
            memory = row[begin : begin + size].view(like.dtype)
            first = memory.storage_offset() + like.storage_offset()
            views[name] = memory.as_strided(like.shape, like.stride(), first)
        return views

    def poison(self, first: int, count: int) -> None:
        self.words[first : first + count].fill_(_POISON)


def arena(size: int, device: str = "cuda") -> torch.Tensor:
    """So many bytes of poison."""
    words = torch.empty(size // 8, dtype=torch.int64, device=device)
    return poison(words.view(torch.uint8))


def poison(memory: torch.Tensor) -> torch.Tensor:
    """Fills an arena with poison."""
    memory.view(torch.int64).fill_(_POISON)
    return memory


class Beside(Protocol):
    """What goes on beside the runs."""

    def begin(self) -> None:
        """Called before each batch of runs."""

    def keep_busy(self) -> None:
        """Called after each run."""


class Nothing:
    def begin(self) -> None:
        """Nothing goes on."""

    def keep_busy(self) -> None:
        """Nothing goes on."""


class Neighbour:
    """A stream that fills memory again and again, in one of two ways that take turns, a batch of runs each.

    All SMs: many small kernels with the runs' priority. A run with higher priority would hold the SMs, and
    stop the fills; the thread blocks of one large fill would all start before a run.

    Few SMs: one large kernel in a green context. It never stops, and a run has the other SMs.

    Neither way is the better one for both races that are known (H200, wrong runs of 300, k 128; races.md):

        fills                           BF16 256x128x64   FP8 256x96x128
        all SMs, TLBs not cleared                    28                0
        all SMs, TLBs cleared                       122                4
        16 SMs, TLBs cleared                        271                0
    """

    def __init__(self, size: int) -> None:
        from green_contexts import GreenContext  # noqa: PLC0415 (needs cuda-python, which CPU tests may lack)

        memory = torch.empty(size // 8, dtype=torch.int64, device="cuda")
        self._runs, self._stream = torch.cuda.Stream(), torch.cuda.Stream()
        pieces = torch.cuda.CUDAGraph()
        with torch.cuda.graph(pieces, stream=self._stream):
            for piece in memory.split(_PIECE // 8):
                piece.fill_(1)
        self._few = GreenContext(_SMS)  # holds the stream
        self._ways: Iterator[tuple[torch.cuda.Stream, Callable[[], object]]] = itertools.cycle(
            [(self._stream, pieces.replay), (self._few.stream, functools.partial(memory.fill_, 1))]
        )
        self._fill: Callable[[], object] = pieces.replay
        self._fills: deque[torch.cuda.Event] = deque()

    def begin(self) -> None:
        """Clears the TLBs, and takes the other way. The driver clears them when memory is given back to it,
        and waits for all that runs before it does."""
        torch.empty(_UNMAPPED, dtype=torch.uint8, device="cuda")
        torch.cuda.empty_cache()
        self._stream, self._fill = next(self._ways)
        self.keep_busy()

    def keep_busy(self) -> None:
        while self._fills and self._fills[0].query():
            self._fills.popleft()
        with torch.cuda.stream(self._stream):
            while len(self._fills) < _FILLS:
                self._fill()
                self._fills.append(self._stream.record_event())

    @contextmanager
    def filling(self) -> Iterator[None]:
        """Runs of the body are on a stream beside that of the fills. All are through at the end, also where
        the body fails: later runs would write results among the poison of the next kernel's places."""
        torch.cuda.synchronize()
        try:
            with torch.cuda.stream(self._runs):
                yield
        finally:
            torch.cuda.synchronize()


def count_wrong(
    call: Callable[[Views], object],
    places: Places,
    expected: torch.Tensor,
    runs: int,
    *,
    beside: Beside,
) -> int:
    """How many of so many runs do not write the expected words, going round the arena. The count stays on the
    device until the last run is through."""
    wrong = torch.zeros((), dtype=torch.int64, device=expected.device)
    batches, left = itertools.cycle(places.batches()), runs
    while left:
        batch = next(batches)[:left]
        beside.begin()
        for place in batch:
            call(places.views(place))
            beside.keep_busy()
        words = places.words[batch.start : batch.stop : batch.step]
        wrong += (words != expected).any(1).sum()
        words.fill_(_POISON)
        left -= len(batch)
    return int(wrong)


def quiet_runs_equal(call: Callable[[Views], object], places: Places, runs: int) -> bool:
    """Runs a call alone, a few times, to the first places, and answers whether each wrote the same words.
    They stay there: the caller poisons the places again."""
    for place in range(runs):
        call(places.views(place))
        if places.words.is_cuda:
            torch.cuda.synchronize()
    return bool((places.words[:runs] == places.words[0]).all())
