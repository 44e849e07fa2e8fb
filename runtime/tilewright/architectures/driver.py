"""Calls into CUDA's driver library, by ctypes."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator

LIBRARY = "libcuda.so.1"

_CAPTURE_MODE_RELAXED = 2  # CUstreamCaptureMode


class DriverError(RuntimeError):
    """A function of the driver has returned an error."""


def call(function: ctypes._NamedFuncPointer, *arguments: object) -> None:
    if (status := function(*arguments)) != 0:
        raise DriverError(f"{function.__name__} returned CUDA error {status}")


@contextlib.contextmanager
def relaxed_capture(cuda: ctypes.CDLL) -> Iterator[None]:
    """Lets this thread load modules and free objects while a stream captures a CUDA graph.

    Otherwise such calls end the capture, because the driver takes them for a part of the captured work.
    """
    mode = ctypes.c_int(_CAPTURE_MODE_RELAXED)
    call(cuda.cuThreadExchangeStreamCaptureMode, ctypes.byref(mode))
    try:
        yield
    finally:
        call(cuda.cuThreadExchangeStreamCaptureMode, ctypes.byref(mode))
