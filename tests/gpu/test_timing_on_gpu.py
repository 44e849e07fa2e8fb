"""The CUDA graphs that calls are timed in. A capture that fails leaves the process as it was."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest
import torch

from tilewright.architectures.driver import DriverError
from tilewright.tools.timing import Replays

SIZE = 1 << 20


@pytest.fixture(autouse=True)
def initialised() -> None:
    torch.cuda.init()


def refuse() -> None:
    raise ValueError("refused")


def swallow() -> None:
    with contextlib.suppress(RuntimeError):
        torch.cuda.synchronize()


def active_bytes() -> int:
    """Bytes of blocks that are in use, or that a stream may still use."""
    return int(torch.cuda.memory_stats()["active_bytes.all.current"])


@pytest.mark.parametrize(
    ("fail", "error"),
    [(refuse, ValueError), (torch.cuda.synchronize, RuntimeError), (swallow, DriverError)],
    ids=["refused", "synchronised", "error swallowed"],
)
def test_a_capture_that_fails_leaves_nothing_behind(fail: Callable[[], None], error: type[Exception]) -> None:
    x = torch.ones(SIZE, device="cuda")
    seed = torch.cuda.initial_seed()
    with pytest.raises(error):
        Replays([lambda: x + 1, fail], warm_up=0)
    assert not torch.cuda.is_current_stream_capturing()

    # The default generator draws, and may be seeded.
    torch.cuda.manual_seed(7)
    first = torch.rand(SIZE, device="cuda")
    torch.cuda.manual_seed(7)
    assert torch.equal(torch.rand(SIZE, device="cuda"), first)
    torch.cuda.manual_seed(seed)

    # The allocator reuses memory of another stream as soon as that stream is done with it. While it takes a
    # capture to be under way, it does not.
    before = active_bytes()
    other = torch.cuda.Stream()
    used = torch.ones(SIZE, device="cuda")
    used.record_stream(other)
    del used
    torch.cuda.synchronize()
    small = torch.ones(1, device="cuda")  # an allocation looks for what has become free
    assert active_bytes() - before < 4 * SIZE
    del small

    y = torch.zeros(SIZE, device="cuda")
    Replays([lambda: y.add_(x)], warm_up=0).replay()
    assert torch.equal(x, y)


def test_replays_repeat_their_calls() -> None:
    x, y = torch.ones(SIZE, device="cuda"), torch.zeros(SIZE, device="cuda")

    def call() -> torch.Tensor:
        y.add_(x * 2)
        return y * 3

    graph = Replays([call, call], warm_up=1)
    torch.cuda.synchronize()
    assert y[0] == 2  # of the warm-up: a capture runs nothing
    other = Replays([lambda: x.mul_(2)], warm_up=0, pool=graph.pool)
    graph.replay()
    other.replay()
    graph.replay()
    assert torch.equal(y, torch.full_like(y, 2 + 4 + 8))
    assert [float(result[-1]) for result in graph._results] == [30, 42]
    assert graph.seconds(3) > 0


def test_memory_of_a_graph_is_freed_with_it() -> None:
    x = torch.ones(SIZE, device="cuda")
    before = torch.cuda.memory_allocated()
    graph = Replays([lambda: x + 1], warm_up=0)
    assert torch.cuda.memory_allocated() >= before + 4 * SIZE
    graph.replay()
    del graph
    assert torch.cuda.memory_allocated() == before
