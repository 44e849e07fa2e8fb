"""torch.compile and JAX call our kernels on a GPU."""

from __future__ import annotations

import os

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # JAX would take most of the GPU's memory

import pytest
import torch
from torch_helpers import random, weight

import tilewright
from tilewright.adapters import inductor
from tilewright.errors import NotBuiltError

M, N, K = 64, 256, 512


def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    try:
        return tilewright.gemm(a, b)
    except NotBuiltError as error:
        return pytest.skip(error.message)


def test_inductor_calls_ours_where_it_is_the_only_choice() -> None:
    from torch._inductor import config  # noqa: PLC0415
    from torch._inductor.utils import run_and_get_code  # noqa: PLC0415

    a, b = random(M, K), weight(N, K)
    expected = product(a, b)
    torch._dynamo.reset()
    inductor.enable()
    try:
        settings = {"max_autotune": True, "max_autotune_gemm_backends": "NONE", "force_disable_caches": True}
        with config.patch(settings), torch.no_grad():
            actual, (code,) = run_and_get_code(torch.compile(lambda a: torch.mm(a, b) * 2), a)
    finally:
        inductor.disable()
        torch._dynamo.reset()
    assert "extern_kernels.tilewright_gemm(" in code
    torch.testing.assert_close(actual, expected * 2)


def test_xla_calls_ours_on_its_stream() -> None:
    jax = pytest.importorskip("jax", reason="needs jax")
    pytest.importorskip("jax_tvm_ffi", reason="needs jax-tvm-ffi")
    if jax.default_backend() != "gpu":
        pytest.skip("JAX has no GPU here")
    from tilewright.adapters import jax as adapter  # noqa: PLC0415

    a, b = random(M, K), weight(N, K)
    x, w = jax.dlpack.from_dlpack(a), jax.dlpack.from_dlpack(b.t())
    expected = product(a + 1, b)

    @jax.jit
    def block(x: jax.Array) -> jax.Array:
        return adapter.gemm(x + 1, w) * 2

    for _ in range(100):  # an order that is not XLA's would show: x + 1 is written just before
        actual = torch.from_dlpack(block(x))
        assert torch.equal(actual, expected * 2)
