"""Every algorithm that cuBLASLt's heuristic lists for a dense product, called through its C interface.

`torch.mm` runs the first of the list. The fastest of all is what a program would get that times each of them.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from ctypes import POINTER, byref, c_float, c_int32, c_size_t, c_uint8, c_uint64, c_void_p
from typing import Any

import torch

ASKED = 100  # algorithms of the heuristic
WORKSPACE_BYTES = 64 << 20
# cublasLt.h and library_types.h of CUDA 13.0.
_COMPUTE_F32 = 68
_TYPES = {torch.float32: 0, torch.float16: 2, torch.bfloat16: 14, torch.float8_e4m3fn: 28}
_TRANSA, _A_SCALE, _B_SCALE, _FAST_ACCUMULATION = 3, 17, 18, 25  # of a matmul's description
_MOST_WORKSPACE = 1  # of a preference
_TRANSPOSED = 1


class _Algorithm(ctypes.Structure):
    _fields_ = [("data", c_uint64 * 8)]


class _Heuristic(ctypes.Structure):
    _fields_ = [
        ("algorithm", _Algorithm),
        ("workspace_bytes", c_size_t),
        ("state", c_int32),
        ("waves", c_float),
        ("reserved", c_int32 * 4),
    ]


@functools.cache
def _library() -> ctypes.CDLL:
    """The library that torch has loaded."""
    torch.mm(torch.zeros(8, 8, device="cuda"), torch.zeros(8, 8, device="cuda"))
    return ctypes.CDLL("libcublasLt.so.13")


def _call(name: str, *arguments: Any) -> None:
    if status := getattr(_library(), name)(*arguments):
        raise RuntimeError(f"{name} answers {status}")


@functools.cache
def _handle() -> c_void_p:
    handle = c_void_p()
    _call("cublasLtCreate", byref(handle))
    return handle


@functools.cache
def _workspace() -> torch.Tensor:
    return torch.empty(WORKSPACE_BYTES, dtype=torch.uint8, device="cuda")


@functools.cache
def _unit() -> torch.Tensor:
    return torch.ones(1, device="cuda")


def _layout(tensor: torch.Tensor, rows: int, columns: int) -> c_void_p:
    """A matrix in column-major order without gaps."""
    layout = c_void_p()
    arguments = (c_uint64(rows), c_uint64(columns), ctypes.c_int64(rows))
    _call("cublasLtMatrixLayoutCreate", byref(layout), _TYPES[tensor.dtype], *arguments)
    return layout


class Product:
    """D = A B of operands whose k is contiguous, (m, k) and (k, n), with FP32 sums. D is row-major.

    cuBLASLt sees the transposes: D^T (n x m) is the transpose of B^T's columns times A^T.
    """

    def __init__(self, a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> None:
        (m, k), n = a.shape, b.shape[1]
        self._description = c_void_p()
        _call("cublasLtMatmulDescCreate", byref(self._description), _COMPUTE_F32, _TYPES[torch.float32])
        self._set(_TRANSA, c_int32(_TRANSPOSED))
        if a.element_size() == 1:
            for which in (_A_SCALE, _B_SCALE):
                self._set(which, c_void_p(_unit().data_ptr()))
            self._set(_FAST_ACCUMULATION, c_uint8(1))
        self._weights, self._rows = _layout(b, k, n), _layout(a, k, m)
        self._result = _layout(out, n, m)
        self.algorithms = self._listed()

    def _set(self, attribute: int, value: Any) -> None:
        size = c_size_t(ctypes.sizeof(value))
        _call("cublasLtMatmulDescSetAttribute", self._description, attribute, byref(value), size)

    def _listed(self) -> list[_Heuristic]:
        preference, count = c_void_p(), c_int32()
        _call("cublasLtMatmulPreferenceCreate", byref(preference))
        most = c_size_t(WORKSPACE_BYTES)
        arguments = (preference, _MOST_WORKSPACE, byref(most), c_size_t(ctypes.sizeof(most)))
        _call("cublasLtMatmulPreferenceSetAttribute", *arguments)
        results = (_Heuristic * ASKED)()
        sides = (self._weights, self._rows, self._result, self._result)
        find = _library().cublasLtMatmulAlgoGetHeuristic
        find.argtypes = [c_void_p] * 7 + [c_int32, POINTER(_Heuristic), POINTER(c_int32)]
        if status := find(_handle(), self._description, *sides, preference, ASKED, results, byref(count)):
            raise RuntimeError(f"cublasLtMatmulAlgoGetHeuristic answers {status}")
        return [result for result in results[: count.value] if result.state == 0]

    def call(self, heuristic: _Heuristic) -> Callable[[Any], None]:
        """A call of one algorithm on a set of operands (`a`, `b` and `out`), on torch's current stream."""
        alpha, beta = c_float(1), c_float(0)
        run, handle, description = _library().cublasLtMatmul, _handle(), self._description

        def launch(operands: Any) -> None:
            stream = c_void_p(torch.cuda.current_stream().cuda_stream)
            out = c_void_p(operands.out.data_ptr())
            status = run(
                *(handle, description, byref(alpha), c_void_p(operands.b.data_ptr()), self._weights),
                *(c_void_p(operands.a.data_ptr()), self._rows, byref(beta), out, self._result),
                *(out, self._result, byref(heuristic.algorithm), c_void_p(_workspace().data_ptr())),
                *(c_size_t(WORKSPACE_BYTES), stream),
            )
            if status:
                raise RuntimeError(f"cublasLtMatmul answers {status}")

        return launch
