"""How many clusters of thread blocks a GPU runs at once, as its driver says."""

from __future__ import annotations

import contextlib
import ctypes
import logging
from collections.abc import Iterator

from tilewright.architectures import driver
from tilewright.architectures.driver import DriverError, call

log = logging.getLogger("tilewright")

SIZES = range(1, 9)  # thread blocks of a cluster that every GPU of sm_90 and later takes

_THREADS = 384
_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8  # CUfunction_attribute
_CLUSTER_DIMENSION = 4  # CUlaunchAttributeID
# For any GPU that has clusters: what a block costs is what the launch asks for, not what the kernel does.
_KERNEL = b".version 7.8\n.target sm_90\n.address_size 64\n.visible .entry empty() { ret; }\n"


class Attribute(ctypes.Structure):
    """CUlaunchAttribute of cuda.h: its value is a union of 64 bytes, aligned to 8."""

    _fields_ = (
        ("id", ctypes.c_int),
        ("padding", ctypes.c_int),
        ("cluster", ctypes.c_uint * 3),
        ("others", ctypes.c_char * 52),
    )


class Config(ctypes.Structure):
    """CUlaunchConfig of cuda.h."""

    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared_bytes", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(Attribute)),
        ("attribute_count", ctypes.c_uint),
    )


def clusters_at_once(device: int, shared_memory: int, library: str = driver.LIBRARY) -> tuple[int, ...]:
    """Clusters of each of `SIZES` that run at once, where a thread block takes `shared_memory` bytes, which
    is all that it may have: so one to an SM. A cluster stays within a part of the GPU whose SMs may be no
    multiple of it, and GPUs of one name differ in how many of them each part has.

    `device` is CUDA's number. Empty where the driver does not say.
    """
    try:
        cuda = ctypes.CDLL(library)
        with driver.relaxed_capture(cuda), _context(cuda, device), _function(cuda) as function:
            call(cuda.cuFuncSetAttribute, function, _MAX_DYNAMIC_SHARED_SIZE_BYTES, shared_memory)
            return tuple(_ask(cuda, function, size, shared_memory) for size in SIZES)
    except (
        OSError,
        AttributeError,
        DriverError,
    ) as error:  # no driver, one without clusters, a GPU without
        log.debug("GPU %d: how many clusters it runs at once is not known: %s", device, error)
        return ()


def _ask(cuda: ctypes.CDLL, function: ctypes.c_void_p, size: int, shared_memory: int) -> int:
    attribute = Attribute(id=_CLUSTER_DIMENSION, cluster=(size, 1, 1))
    config = Config((size, 1, 1), (_THREADS, 1, 1), shared_memory, None, ctypes.pointer(attribute), 1)
    clusters = ctypes.c_int()
    call(cuda.cuOccupancyMaxActiveClusters, ctypes.byref(clusters), function, ctypes.byref(config))
    return clusters.value


@contextlib.contextmanager
def _context(cuda: ctypes.CDLL, device: int) -> Iterator[None]:
    """The device's own context, which the CUDA runtime uses too, is current meanwhile."""
    call(cuda.cuInit, 0)
    handle, context = ctypes.c_int(), ctypes.c_void_p()
    call(cuda.cuDeviceGet, ctypes.byref(handle), device)
    call(cuda.cuDevicePrimaryCtxRetain, ctypes.byref(context), handle)
    try:
        call(cuda.cuCtxPushCurrent_v2, context)
        try:
            yield
        finally:
            call(cuda.cuCtxPopCurrent_v2, ctypes.byref(ctypes.c_void_p()))
    finally:
        call(cuda.cuDevicePrimaryCtxRelease_v2, handle)


@contextlib.contextmanager
def _function(cuda: ctypes.CDLL) -> Iterator[ctypes.c_void_p]:
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    call(cuda.cuModuleLoadData, ctypes.byref(module), _KERNEL)
    try:
        call(cuda.cuModuleGetFunction, ctypes.byref(function), module, b"empty")
        yield function
    finally:
        call(cuda.cuModuleUnload, module)
