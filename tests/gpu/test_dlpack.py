"""Arrays of CuPy and JAX into the ops and back, as DLPack: nothing is copied, and order is the stream's."""

from __future__ import annotations

import os

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # JAX would take most of the GPU's memory

import pytest
import torch

import tilewright
from tilewright.errors import NotBuiltError

M, N, K = 64, 256, 512


def product(a: torch.Tensor, b: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
    try:
        return tilewright.gemm(a, b, out=out)
    except NotBuiltError as error:
        return pytest.skip(error.message)


def test_cupy() -> None:
    cupy = pytest.importorskip("cupy", reason="CuPy is not installed")
    generator = cupy.random.default_rng(0)
    a = generator.standard_normal((M, K), dtype=cupy.float32).astype(cupy.float16)
    weight = generator.standard_normal((N, K), dtype=cupy.float32).astype(cupy.float16)
    out = cupy.full((M, N), cupy.nan, dtype=cupy.float16)
    product(torch.from_dlpack(a), torch.from_dlpack(weight).T, torch.from_dlpack(out))
    torch.cuda.synchronize()
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream, torch.cuda.stream(torch.cuda.ExternalStream(stream.ptr)):
        a *= 2  # on CuPy's stream, on which the op is enqueued behind it
        x, w, d = torch.from_dlpack(a), torch.from_dlpack(weight), torch.from_dlpack(out)
        assert (x.data_ptr(), d.data_ptr()) == (a.data.ptr, out.data.ptr)
        made = product(x, w.T, d)
        doubled = out * 2  # CuPy reads what the op has written
        back = cupy.from_dlpack(made)
    stream.synchronize()
    expected = a.astype(cupy.float64) @ weight.astype(cupy.float64).T
    error = cupy.linalg.norm(out.astype(cupy.float64) - expected) / cupy.linalg.norm(expected)
    assert float(error) < 1e-3
    assert bool((doubled == out * 2).all())
    assert back.data.ptr == out.data.ptr


def test_jax() -> None:
    jax = pytest.importorskip("jax", reason="JAX is not installed")
    if jax.default_backend() != "gpu":
        pytest.skip("JAX sees no GPU")
    keys = jax.random.split(jax.random.key(0))
    a = jax.random.normal(keys[0], (M, K), dtype=jax.numpy.bfloat16)
    weight = jax.random.normal(keys[1], (N, K), dtype=jax.numpy.bfloat16)
    # JAX computes on streams of its own: from_dlpack makes torch's current stream wait for the array.
    x, w = torch.from_dlpack(a), torch.from_dlpack(weight)
    assert x.data_ptr() == a.unsafe_buffer_pointer()
    made = product(x, w.T)
    back = jax.dlpack.from_dlpack(made)
    assert back.unsafe_buffer_pointer() == made.data_ptr()
    assert back.dtype == jax.numpy.bfloat16
    total = float(jax.numpy.sum(back.astype(jax.numpy.float32)))
    expected = x.double() @ w.double().T
    assert float((made.double() - expected).norm() / expected.norm()) < 4e-3
    assert abs(total - float(made.float().sum())) < 1e-2 * float(made.float().abs().sum())
