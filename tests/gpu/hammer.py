"""The hammer: one call again and again, each into memory that was not touched for long, while another stream
fills memory; all results compared to the bit on the GPU.

What races between warps needs memory that answers late: stores that miss the TLB and wait behind another
stream's. So results go through an arena of many gigabytes, to other pages in each run, and are poison before.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol

import torch

PAGE = 2 * 2**20  # bytes, of memory that the TLB maps as a whole
ALIGNED = 512  # bytes, at whose multiples each tensor of a result begins
_POISON = -1  # as words: NaN in every type but FP4 and integers
_BATCH, _BATCH_BYTES = 64, 2**28  # runs that are compared together, at most
_AHEAD = 2  # batches that are queued
_FILLS = 3  # of the neighbour's memory that are queued

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

    def keep_busy(self) -> None:
        """Called after each batch of runs."""


class Nothing:
    def keep_busy(self) -> None:
        """Nothing goes on."""


class Neighbour:
    """A stream that fills memory again and again. The host stays a few batches ahead of the GPU, so that the
    fills do not end before the runs."""

    def __init__(self, size: int) -> None:
        self._memory = torch.empty(size, dtype=torch.uint8, device="cuda")
        self._stream = torch.cuda.Stream()
        self._runs = torch.cuda.Stream(priority=-1)
        self._fills: deque[torch.cuda.Event] = deque()
        self._batches: deque[torch.cuda.Event] = deque()

    def keep_busy(self) -> None:
        self._batches.append(torch.cuda.current_stream().record_event())
        if len(self._batches) > _AHEAD:
            self._batches.popleft().synchronize()
        while self._fills and self._fills[0].query():
            self._fills.popleft()
        with torch.cuda.stream(self._stream):
            while len(self._fills) < _FILLS:
                self._memory.fill_(len(self._fills))
                self._fills.append(self._stream.record_event())

    @contextmanager
    def filling(self) -> Iterator[None]:
        """Runs of the body are on a stream whose thread blocks go before those of the fills."""
        torch.cuda.synchronize()
        self.keep_busy()
        with torch.cuda.stream(self._runs):
            yield
        torch.cuda.synchronize()
        self._fills.clear()
        self._batches.clear()


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
    batch = max(1, min(_BATCH, _BATCH_BYTES // places.bytes))
    wrong = torch.zeros((), dtype=torch.int64, device=expected.device)
    place, left = 0, runs
    while left:
        count = min(batch, left, places.count - place)
        for each in range(place, place + count):
            call(places.views(each))
        wrong += (places.words[place : place + count] != expected).any(1).sum()
        places.poison(place, count)
        place, left = (place + count) % places.count, left - count
        beside.keep_busy()
    return int(wrong)


def quiet_runs_equal(call: Callable[[Views], object], places: Places, runs: int) -> bool:
    """Runs a call alone, a few times, to the first places, and answers whether each wrote the same words.
    They stay there: the caller poisons the places again."""
    for place in range(runs):
        call(places.views(place))
        if places.words.is_cuda:
            torch.cuda.synchronize()
    return bool((places.words[:runs] == places.words[0]).all())
