"""The kernel of docs/lean_kernels.md, on a GPU: in clusters, with tiles that reach beyond D."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest
import torch
from lean_kernels_page import NAME, compiled, launching

from tilewright.errors import ToolchainError

LAUNCH = launching()


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Any:
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("a kernel of sm_90a")
    try:
        library, _ = compiled(tmp_path_factory.mktemp("page"))
    except ToolchainError as error:
        pytest.skip(f"no toolchain: {error}")
    return LAUNCH.load(str(library), NAME)


@pytest.mark.parametrize("cluster", [(1, 1), (2, 1), (1, 2), (2, 2)], ids=str)
@pytest.mark.parametrize("shape", [(128, 128, 64), (1, 8, 8), (300, 264, 456), (1500, 2000, 1000)], ids=str)
def test_it_multiplies(kernel: Any, shape: tuple[int, int, int], cluster: tuple[int, int]) -> None:
    m, n, k = shape
    generator = torch.Generator("cuda").manual_seed(m + n + k)
    a = torch.randn(m, k, device="cuda", generator=generator).bfloat16()
    b = torch.randn(n, k, device="cuda", generator=generator).bfloat16()
    wide = torch.full((m + 1, n + 8), float("nan"), device="cuda", dtype=torch.bfloat16)
    d = wide[:m, :n]
    assert kernel.args_bytes == ctypes.sizeof(LAUNCH.Args)
    assert LAUNCH.multiply(kernel, a, b, d, cluster) == 0
    torch.cuda.synchronize()
    expected = a.double() @ b.double().T
    assert not d.isnan().any()
    # Rounding to BF16, and F32 sums of some hundred products.
    assert ((d.double() - expected).abs() <= 2.0**-8 * expected.abs() + 1e-4 * k**0.5).all()
    assert wide[m:].isnan().all()
    assert wide[:, n:].isnan().all()
