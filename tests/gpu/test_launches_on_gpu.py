"""Launches and the state of CUDA around them: which context is current, and errors that are left behind."""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch_helpers import RunApart, built, random, weight

import tilewright
from tilewright.architectures import device as devices
from tilewright.errors import LaunchError

pytestmark = pytest.mark.marks_kernels

ROWS, WIDTH, DEPTH = 48, 512, 1024


OPS = ("gemm", "mm_nvfp4", "quantize_nvfp4")  # a CUTLASS kernel; one with our tensor maps; one with none


@pytest.fixture(params=OPS)
def op(request: pytest.FixtureRequest) -> Callable[[], torch.Tensor]:
    return call_of(request.param)


def call_of(name: str) -> Callable[[], torch.Tensor]:
    """A call of an op, with operands of its own."""
    x = random(ROWS, DEPTH)
    if name == "gemm":
        w = weight(WIDTH, DEPTH)
        return lambda: built(lambda: tilewright.gemm(x, w))
    if name == "quantize_nvfp4":
        scale = torch.full((1,), 100.0, device="cuda")  # a number would be made in the capture
        return lambda: built(lambda: tilewright.quantize_nvfp4(x, scale)[0])
    a, a_scales = built(lambda: tilewright.quantize_nvfp4(x))
    b, b_scales = built(lambda: tilewright.quantize_nvfp4(random(WIDTH, DEPTH, seed=1)))
    return lambda: built(lambda: tilewright.mm_nvfp4(a, b.mT, a_scales, b_scales))


def test_the_driver_says_how_many_clusters_run_at_once() -> None:
    """And leaves the current context alone."""
    driver = Driver()
    before = driver.current()
    device = devices.read.__wrapped__(torch.cuda.current_device())
    assert driver.current() == before
    assert device.clusters[0] == device.sm_count
    for size, (smaller, larger) in enumerate(itertools.pairwise(device.clusters), start=2):
        assert 0 < larger <= smaller
        assert larger * size <= device.sm_count


class Driver:
    """The driver's contexts, as a library beside torch sees them."""

    def __init__(self) -> None:
        self._library = ctypes.CDLL("libcuda.so.1")

    def current(self) -> int | None:
        actual = ctypes.c_void_p()
        assert self._library.cuCtxGetCurrent(ctypes.byref(actual)) == 0
        return actual.value

    def make_current(self, context: int | None) -> None:
        assert self._library.cuCtxSetCurrent(ctypes.c_void_p(context)) == 0


def test_a_thread_whose_context_was_taken_away(op: Callable[[], torch.Tensor]) -> None:
    """By whoever pops or resets contexts, after the thread's first call."""
    expected, driver, actual = op(), Driver(), []

    def work() -> None:
        try:
            op()
            torch.cuda.synchronize()
            driver.make_current(None)
            actual.append(op())
            assert driver.current() is not None
        except Exception as error:
            actual.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    torch.cuda.synchronize()
    assert len(actual) == 1
    assert isinstance(actual[0], torch.Tensor), repr(actual[0])
    assert torch.equal(actual[0], expected)


def test_a_green_context_stays(op: Callable[[], torch.Tensor]) -> None:
    green_contexts: Any = pytest.importorskip("torch.cuda.green_contexts", reason="this torch has none")
    expected, driver = op(), Driver()
    torch.cuda.synchronize()
    try:
        green = green_contexts.GreenContext.create(num_sms=16, device_id=0)
    except RuntimeError as error:
        pytest.skip(f"no green context here: {error}")
    before = driver.current()
    green.set_context()
    try:
        within = driver.current()
        actual = op()
        torch.cuda.synchronize()
        assert driver.current() == within != before
    finally:
        green.pop_context()
    assert torch.equal(actual, expected)


FAILED_LAUNCH = """
import sys
sys.path.insert(0, sys.argv[2])
from test_launches_on_gpu import call_of, fail_a_launch
fail_a_launch(call_of(sys.argv[3]))
print("done")
"""


@pytest.mark.parametrize("name", OPS)
def test_a_failed_launch_fails_nothing_else(run_apart: RunApart, name: str) -> None:
    """In a process of its own: after a capture that fails, torch 2.11 takes its random number generator for
    captured, and refuses random numbers."""
    call_of(name)()  # or skips the test
    run_apart(FAILED_LAUNCH, "", str(Path(__file__).parent), name)


def fail_a_launch(op: Callable[[], torch.Tensor]) -> None:
    """Into a capture that something else has made invalid."""
    expected = op()
    torch.cuda.synchronize()
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        graph = torch.cuda.CUDAGraph()
        graph.capture_begin()
        try:
            with pytest.raises(RuntimeError):
                stream.synchronize()
            with pytest.raises(LaunchError):
                op()
        finally:  # else all that follows is captured
            with contextlib.suppress(RuntimeError):  # what was captured is invalid
                graph.capture_end()
    innocent = torch.ones(8, device="cuda") * 3
    torch.cuda.synchronize()
    assert bool((innocent == 3).all())
    assert torch.equal(op(), expected)
