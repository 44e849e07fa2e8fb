"""Captures CUDA graphs. A capture that fails leaves no state behind in torch.

If the captured work has broken the capture (with a synchronisation, for example),
`torch.cuda.CUDAGraph.capture_end` raises before it cleans up. From then on, torch's default generator counts
as captured, so that random numbers cannot be drawn, and its allocator defers frees until the capture ends,
which it never does. In this module the driver captures, and torch only learns which memory to use during the
capture.
"""

from __future__ import annotations

import contextlib
import ctypes
import weakref
from collections.abc import Iterator

import torch

from tilewright.architectures import driver
from tilewright.architectures.driver import call

_CAPTURE_MODE_GLOBAL = 0  # CUstreamCaptureMode, torch's default
# CUgraphInstantiate_flags, as torch sets them. A replay frees what the one before has allocated: replays
# allocate where torch's allocator is cudaMallocAsync.
_AUTO_FREE_ON_LAUNCH = 1
_USE_NODE_PRIORITY = 8  # nodes keep the priorities of the streams that they were captured from


class CudaGraph:
    """A CUDA graph of the work that is enqueued within `capture`."""

    def __init__(self) -> None:
        self._cuda = ctypes.CDLL(driver.LIBRARY)
        self._executable = ctypes.c_void_p()

    @contextlib.contextmanager
    def capture(self, pool: torch.cuda.MemPool) -> Iterator[None]:
        """Captures the current stream, which must not be the default one, once. `pool` holds new tensors."""
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        graph = ctypes.c_void_p()
        with torch.cuda.use_mem_pool(pool):
            call(self._cuda.cuStreamBeginCapture_v2, stream, _CAPTURE_MODE_GLOBAL)
            try:
                yield
            except BaseException:
                # Its status adds nothing to the exception: a broken capture ends, too.
                self._cuda.cuStreamEndCapture(stream, ctypes.byref(graph))
                if graph:
                    call(self._cuda.cuGraphDestroy, graph)
                raise
            call(self._cuda.cuStreamEndCapture, stream, ctypes.byref(graph))
        try:
            flags = ctypes.c_ulonglong(_AUTO_FREE_ON_LAUNCH | _USE_NODE_PRIORITY)
            call(self._cuda.cuGraphInstantiateWithFlags, ctypes.byref(self._executable), graph, flags)
        finally:
            call(self._cuda.cuGraphDestroy, graph)
        weakref.finalize(self, _destroy, self._cuda, self._executable)

    def replay(self) -> None:
        """Launches the graph on the current stream."""
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        call(self._cuda.cuGraphLaunch, self._executable, stream)


def _destroy(cuda: ctypes.CDLL, executable: ctypes.c_void_p) -> None:
    with driver.relaxed_capture(cuda):
        call(cuda.cuGraphExecDestroy, executable)
