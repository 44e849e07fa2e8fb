"""Green contexts, which have some of a GPU's SMs, and the grids of what is launched in them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from cuda.bindings import driver


def checked(answer: tuple[Any, ...]) -> Any:
    """What a function of the driver answers beside its status. Raises RuntimeError for an error."""
    status, *values = answer
    if status != driver.CUresult.CUDA_SUCCESS:
        raise RuntimeError(f"the CUDA driver answers {status!r}")
    return values[0] if len(values) == 1 else tuple(values)


class GreenContext:
    """`sms` SMs of a device, with a stream of their own. `apart`: SMs of any place, as few as two; else
    eights that hold a cluster of 8."""

    def __init__(self, sms: int, *, apart: bool = False, device: int = 0) -> None:
        number = checked(driver.cuDeviceGet(device))
        kind = driver.CUdevResourceType.CU_DEV_RESOURCE_TYPE_SM
        whole = checked(driver.cuDeviceGetDevResource(number, kind))
        # CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING is 1.
        groups, _, _ = checked(driver.cuDevSmResourceSplitByCount(1, whole, int(apart), sms))
        self.sms = int(groups[0].sm.smCount)
        descriptor = checked(driver.cuDevResourceGenerateDesc([groups[0]], 1))
        flags = int(driver.CUgreenCtxCreate_flags.CU_GREEN_CTX_DEFAULT_STREAM)
        self._green = checked(driver.cuGreenCtxCreate(descriptor, number, flags))
        self.context = checked(driver.cuCtxFromGreenCtx(self._green))
        non_blocking = int(driver.CUstream_flags.CU_STREAM_NON_BLOCKING)
        self._stream = checked(driver.cuGreenCtxStreamCreate(self._green, non_blocking, 0))
        self.stream = torch.cuda.ExternalStream(int(self._stream))

    @property
    def number(self) -> int:
        """Its unique id, by which launches know it."""
        return int(checked(driver.cuCtxGetId(self.context)))

    @contextlib.contextmanager
    def current(self) -> Iterator[None]:
        """It is the current context meanwhile, and its stream torch's."""
        checked(driver.cuCtxPushCurrent(self.context))
        try:
            with torch.cuda.stream(self.stream):
                yield
            self.stream.synchronize()
        finally:
            checked(driver.cuCtxPopCurrent())

    @contextlib.contextmanager
    def on_stream(self) -> Iterator[None]:
        """Its stream is torch's meanwhile, and the current context stays."""
        with torch.cuda.stream(self.stream):
            yield
        self.stream.synchronize()

    def close(self) -> None:
        self.stream.synchronize()
        checked(driver.cuStreamDestroy(self._stream))
        checked(driver.cuGreenCtxDestroy(self._green))


def grids(call: Callable[[], object]) -> list[int]:
    """The thread blocks of each kernel that a call launches on torch's stream. The call is captured, and
    nothing runs."""
    stream = driver.CUstream(torch.cuda.current_stream().cuda_stream)
    relaxed = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
    checked(driver.cuStreamBeginCapture(stream, relaxed))
    try:
        call()
    finally:
        graph = checked(driver.cuStreamEndCapture(stream))
    _, count = checked(driver.cuGraphGetNodes(graph))
    nodes, _ = checked(driver.cuGraphGetNodes(graph, count))
    blocks = []
    for node in nodes[:count]:
        if checked(driver.cuGraphNodeGetType(node)) == driver.CUgraphNodeType.CU_GRAPH_NODE_TYPE_KERNEL:
            params = checked(driver.cuGraphKernelNodeGetParams(node))
            blocks.append(int(params.gridDimX * params.gridDimY * params.gridDimZ))
    checked(driver.cuGraphDestroy(graph))
    return blocks


def whole_numbers(*shape: int, dtype: torch.dtype) -> torch.Tensor:
    """From -3 to 3: their products and sums are exact in every type and order."""
    return torch.randint(-3, 4, shape, device="cuda").to(dtype)
