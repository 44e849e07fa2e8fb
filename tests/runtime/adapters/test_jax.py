"""Our products in JAX: XLA calls them, and the kernels run on the host."""

from __future__ import annotations

import pytest
import torch

jax = pytest.importorskip("jax", reason="needs jax")
pytest.importorskip("jax_tvm_ffi", reason="needs jax-tvm-ffi")

import jax.numpy as jnp  # noqa: E402 (after the packages are known to be there)

import tilewright  # noqa: E402
from tilewright.adapters import jax as adapter  # noqa: E402
from tilewright.context import Context  # noqa: E402


def matrix(*shape: int) -> jax.Array:
    return jax.random.normal(jax.random.key(sum(shape)), shape, dtype=jnp.bfloat16)


def as_torch(array: jax.Array) -> torch.Tensor:
    return torch.from_dlpack(array)


def equal(found: jax.Array, expected: torch.Tensor) -> bool:
    return torch.equal(as_torch(found), expected)


A, WEIGHT, BIAS = matrix(16, 32), matrix(24, 32), matrix(24)


def test_it_is_the_same_product(host: Context) -> None:
    assert equal(adapter.gemm(A, WEIGHT), tilewright.gemm(as_torch(A), as_torch(WEIGHT).t()))


def test_bias_activation_and_type(host: Context) -> None:
    actual = adapter.gemm(A, WEIGHT, BIAS, activation="relu")
    expected = tilewright.gemm(as_torch(A), as_torch(WEIGHT).t(), bias=as_torch(BIAS), activation="relu")
    assert equal(actual, expected)
    assert actual.dtype == jnp.bfloat16


def test_it_is_a_part_of_a_jitted_function(host: Context) -> None:
    @jax.jit
    def block(x: jax.Array) -> jax.Array:
        return adapter.gemm(jax.nn.silu(x + 1), WEIGHT) * 2

    for m in (16, 40):
        x = matrix(m, 32)
        hidden = as_torch(jax.jit(lambda x: jax.nn.silu(x + 1))(x))
        assert equal(block(x), tilewright.gemm(hidden, as_torch(WEIGHT).t()) * 2)
    text = block.lower(A).as_text()
    assert "stablehlo.custom_call @tilewright_gemm" in text


def test_an_error_of_ours_reaches_the_caller(host: Context) -> None:
    with pytest.raises(Exception, match="activation"):
        adapter.gemm(A, WEIGHT, activation="tanh").block_until_ready()
    with pytest.raises(ValueError, match=r"got \(16, 32\) and \(32, 24\)"):
        adapter.gemm(A, WEIGHT.T)
