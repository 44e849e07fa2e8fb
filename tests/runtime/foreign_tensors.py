"""Tensors as other frameworks hand them over by DLPack: torch's own begin at their address, on device 0."""

from __future__ import annotations

import ctypes
from typing import Any

import torch
import tvm_ffi

_KINDS = {torch.bfloat16: 4, torch.float32: 2, torch.uint8: 1}  # DLDataTypeCode
_CPU = 1  # DLDeviceType
_NAME = b"dltensor"


class _Tensor(ctypes.Structure):
    """DLTensor of dlpack.h."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _Managed(ctypes.Structure):
    """DLManagedTensor of dlpack.h."""

    _fields_ = (("tensor", _Tensor), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p))


class _Exporter:
    """An array of a framework that says where it lies in another way."""

    def __init__(
        self, tensor: torch.Tensor, byte_offset: int, device: int, strides: bool, lanes: int
    ) -> None:
        rank, longs = tensor.dim(), ctypes.c_int64 * tensor.dim()
        self._kept = (tensor, longs(*tensor.shape), longs(*tensor.stride()))
        self._managed = _Managed()
        self._device = device
        lies = self._managed.tensor
        lies.data, lies.byte_offset = tensor.data_ptr() - byte_offset, byte_offset
        lies.device_type, lies.device_id, lies.ndim = _CPU, device, rank
        lies.code, lies.bits, lies.lanes = _KINDS[tensor.dtype], 8 * tensor.element_size(), lanes
        lies.shape = ctypes.cast(self._kept[1], ctypes.POINTER(ctypes.c_int64))
        if strides:
            lies.strides = ctypes.cast(self._kept[2], ctypes.POINTER(ctypes.c_int64))

    def __dlpack__(self, **_: object) -> object:
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
        return new(ctypes.addressof(self._managed), _NAME, None)

    def __dlpack_device__(self) -> tuple[int, int]:
        return _CPU, self._device


_exporters: list[_Exporter] = []  # for the life of the process: nobody calls a deleter


def foreign(
    tensor: torch.Tensor, *, byte_offset: int = 0, device: int = 0, strides: bool = True, lanes: int = 1
) -> Any:
    """The tensor, whose elements begin `byte_offset` behind `data`; without `strides` it is contiguous. With
    several `lanes` each element is that many of the tensor's, and its extents and strides count these."""
    _exporters.append(_Exporter(tensor, byte_offset, device, strides, lanes))
    return tvm_ffi.from_dlpack(_exporters[-1])
