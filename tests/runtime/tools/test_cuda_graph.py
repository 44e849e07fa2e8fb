"""A capture ends in the driver and in torch's allocator, however the captured calls end."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tilewright.architectures.driver import DriverError
from tilewright.tools import cuda_graph, timing
from tilewright.tools.timing import Replays

STREAM, GRAPH, EXECUTABLE = 0x51, 0x6A, 0xE8
INVALIDATED = 901  # cudaErrorStreamCaptureInvalidated


class Driver:
    """A driver that notes the calls it gets. `cuStreamEndCapture` fails where `broken` is set."""

    def __init__(self) -> None:
        self.broken = False
        self.names: list[str] = []
        self.live: set[int] = set()  # graphs and executables that are not destroyed
        self._functions: dict[str, Callable[..., None]] = {
            "cuStreamEndCapture": lambda _, graph: self._create(graph, GRAPH),
            "cuGraphInstantiateWithFlags": self._instantiate,
            "cuGraphLaunch": self._launch,
            "cuGraphDestroy": self._destroy,
            "cuGraphExecDestroy": self._destroy,
        }

    def __getattr__(self, name: str) -> Callable[..., int]:
        def function(*arguments: Any) -> int:
            self.names.append(name)
            if self.broken and name == "cuStreamEndCapture":
                return INVALIDATED
            if name in self._functions:
                self._functions[name](*arguments)
            return 0

        function.__name__ = name
        return function

    def _instantiate(self, executable: Any, graph: ctypes.c_void_p, flags: ctypes.c_ulonglong) -> None:
        assert (graph.value, flags.value) == (GRAPH, 9)
        self._create(executable, EXECUTABLE)

    def _launch(self, executable: ctypes.c_void_p, stream: ctypes.c_void_p) -> None:
        assert (executable.value, stream.value) == (EXECUTABLE, STREAM)

    def _destroy(self, handle: ctypes.c_void_p) -> None:
        self.live.remove(handle.value or 0)

    def _create(self, pointer: Any, handle: int) -> None:
        pointer._obj.value = handle
        self.live.add(handle)


class Pools:
    """The part of torch's allocator that says which pools are in use."""

    def __init__(self) -> None:
        self.in_use: list[object] = []

    @contextlib.contextmanager
    def use(self, pool: object) -> Iterator[None]:
        self.in_use.append(pool)
        try:
            yield
        finally:
            self.in_use.remove(pool)


@pytest.fixture
def pools(monkeypatch: pytest.MonkeyPatch) -> Pools:
    pools = Pools()
    stream = SimpleNamespace(cuda_stream=STREAM, wait_stream=lambda _: None)
    timing._side_stream.cache_clear()
    for name, value in {
        "MemPool": object,
        "Stream": lambda _: stream,
        "current_device": lambda: 0,
        "current_stream": lambda: stream,
        "stream": lambda _: contextlib.nullcontext(),
        "synchronize": lambda: None,
        "use_mem_pool": pools.use,
    }.items():
        monkeypatch.setattr(torch.cuda, name, value)
    return pools


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch, pools: Pools) -> Iterator[Driver]:
    cuda = Driver()
    monkeypatch.setattr(cuda_graph.ctypes, "CDLL", lambda _: cuda)
    yield cuda
    assert not pools.in_use
    assert not cuda.live
    assert cuda.names.count("cuStreamBeginCapture_v2") == cuda.names.count("cuStreamEndCapture") == 1
    timing._side_stream.cache_clear()  # it holds this test's stream


def test_calls_are_captured_once_and_replayed(cuda: Driver, pools: Pools) -> None:
    captured: list[int] = []
    graph = Replays([lambda: captured.append(len(pools.in_use))] * 3, warm_up=1)
    assert captured == [0, 1, 1, 1]  # the warm-up allocates outside the pool
    assert cuda.live == {EXECUTABLE}
    graph.replay()
    assert cuda.names.count("cuGraphLaunch") == 1
    assert graph.calls == 3
    del graph


@pytest.mark.parametrize("broken", [False, True])
def test_an_exception_ends_the_capture(cuda: Driver, broken: bool) -> None:
    cuda.broken = broken

    def fail() -> None:
        raise ValueError("refused")

    with pytest.raises(ValueError, match="refused"):
        Replays([fail], warm_up=0)
    assert "cuGraphInstantiateWithFlags" not in cuda.names


def test_a_broken_capture_is_an_error(cuda: Driver) -> None:
    cuda.broken = True
    with pytest.raises(DriverError, match="cuStreamEndCapture returned CUDA error 901"):
        Replays([lambda: None])
    assert "cuGraphInstantiateWithFlags" not in cuda.names
