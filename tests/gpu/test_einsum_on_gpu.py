"""`tilewright.einsum` on a GPU: views of every kind of letter, against float64."""

from __future__ import annotations

import logging

import gemm_reference as reference
import pytest
import torch

import tilewright
from tilewright.errors import NotBuiltError

pytestmark = pytest.mark.marks_kernels


def einsum(equation: str, a: torch.Tensor, b: torch.Tensor, **options: object) -> torch.Tensor:
    try:
        return tilewright.einsum(equation, a, b, **options)  # type: ignore[arg-type]
    except NotBuiltError as error:
        pytest.skip(error.message)


def random(*shape: int) -> torch.Tensor:
    return torch.randn(shape, device="cuda", dtype=torch.bfloat16)


def compare(found: torch.Tensor, equation: str, a: torch.Tensor, b: torch.Tensor, c: object = 0) -> None:
    expected = torch.einsum(equation, a.double(), b.double()) + c
    error = (found.double() - expected).norm() / expected.norm()
    assert error < (3e-3 if found.dtype == torch.bfloat16 else 1e-5), f"{equation}: {error}"
    d = "bf16" if found.dtype == torch.bfloat16 else "f32"
    config = {"a": "bf16", "d": d, "fast_accum": False, "activation": "none"}
    reference.compare(found, expected, config, 0, equation)  # each element, too; k counts for fast sums alone


@pytest.mark.parametrize("b", [4, 33, 128])
@pytest.mark.parametrize(("h", "r", "d"), [(128, 512, 128), (8, 1024, 512)])
def test_heads_are_a_batch_without_a_copy(
    b: int, h: int, r: int, d: int, caplog: pytest.LogCaptureFixture
) -> None:
    torch.manual_seed(0)
    x, weights = random(b, h, r), random(h, d, r + 128)[..., :r]
    out = torch.full((b, h, d), float("nan"), dtype=torch.bfloat16, device="cuda")
    with caplog.at_level(logging.WARNING):
        einsum("bhr,hdr->bhd", x, weights, out=out)
    assert not [message for message in caplog.messages if "copies" in message]
    compare(out, "bhr,hdr->bhd", x, weights)
    back = random(b, h, d)
    compare(einsum("bhd,hdr->bhr", back, weights), "bhd,hdr->bhr", back, weights)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_a_sum_over_a_batch_keeps_c(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    a, b = random(129, 128, 64), random(129, 192, 64)
    d = torch.randn(128, 192, device="cuda").to(dtype)
    kept = d.double()
    einsum("bmk,bnk->mn", a, b, out=d, c=d, beta=1.0)
    compare(d, "bmk,bnk->mn", a, b, kept)


def test_gradients_of_weights() -> None:
    torch.manual_seed(0)
    x, y = random(256, 8, 64), random(256, 8, 128)
    c = torch.randn(8, 64, 128, device="cuda")
    compare(einsum("bhd,bhr->hdr", x, y, out_dtype=torch.float32), "bhd,bhr->hdr", x, y)
    kept = c.double()
    compare(einsum("bhd,bhr->hdr", x, y, out=c, c=c, beta=1.0), "bhd,bhr->hdr", x, y, kept)
