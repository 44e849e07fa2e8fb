"""`tilewright.gemm` end to end, with kernels that run on the host in place of a GPU's."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import torch
from gemm_operands import ODD, column_major, expected, matrix

import tilewright
from tilewright.context import Context


@pytest.mark.parametrize("shape", ODD)
@pytest.mark.parametrize("layout", ["tn", "tt", "nn", "nt"])
def test_every_shape_and_layout(host: Context, shape: tuple[int, int, int], layout: str) -> None:
    m, n, k = shape
    a, b = matrix(m, k), matrix(k, n, seed=1)
    a = a if layout[0] == "t" else column_major(a)
    b = b if layout[1] == "t" else column_major(b)
    d = tilewright.gemm(a, b)
    assert d.shape == (m, n)
    assert d.is_contiguous()
    torch.testing.assert_close(d, expected(a, b, torch.bfloat16))


@pytest.mark.parametrize("shape", ODD)
def test_everything_at_once_through_copies(host: Context, shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    a, b = matrix(m, k), column_major(matrix(k, n, seed=1))
    c, bias = matrix(m, n, seed=2), matrix(n, seed=3)
    scale_a, scale_b = torch.tensor([0.5]), torch.tensor(3.0)
    out = torch.full((m, n), float("nan"), dtype=torch.bfloat16)
    options: dict[str, Any] = {"alpha": 2.0, "beta": -1.5, "scale_a": scale_a, "scale_b": scale_b}
    d = tilewright.gemm(a, b, out=out, c=c, bias=bias, activation="relu", **options)
    assert d is out
    reference = torch.relu(3.0 * (a.double() @ b.double()) - 1.5 * c.double() + bias.double())
    torch.testing.assert_close(out, reference.bfloat16())


@pytest.mark.parametrize("dtype", [torch.float32, torch.int8])
def test_types_beside_bf16_have_results_of_their_own_type(host: Context, dtype: torch.dtype) -> None:
    a, b = matrix(32, 64, dtype=dtype), column_major(matrix(64, 48, dtype=dtype, seed=1))
    d = tilewright.gemm(a, b)
    assert d.dtype == (torch.int32 if dtype == torch.int8 else torch.float32)
    torch.testing.assert_close(d, expected(a, b, d.dtype))


def test_float32_in_any_layout(host: Context) -> None:
    a, b = column_major(matrix(9, 13, dtype=torch.float32)), matrix(13, 5, dtype=torch.float32, seed=1)
    torch.testing.assert_close(tilewright.gemm(a, b), expected(a, b, torch.float32))


@pytest.mark.parametrize("k", [16, 12])
@pytest.mark.parametrize("broadcast", ["none", "a", "b", "expanded"])
def test_every_matrix_of_a_batch_is_multiplied(host: Context, k: int, broadcast: str) -> None:
    a = matrix(24, k) if broadcast == "a" else matrix(3, 24, k)
    b = column_major(matrix(k, 40) if broadcast == "b" else matrix(3, k, 40))
    if broadcast == "expanded":
        b = b[:1].expand(3, k, 40)
    c = matrix(24, 40, seed=5)
    d = tilewright.gemm(a, b, c=c, beta=1.0)
    reference = torch.matmul(a.double(), b.double()) + c.double()
    torch.testing.assert_close(d, reference.bfloat16())


def test_rows_within_a_wider_tensor(host: Context) -> None:
    wide_a, wide_out = matrix(20, 64), torch.full((20, 96), float("nan"), dtype=torch.bfloat16)
    a, b, out = wide_a[:, 8:40], column_major(matrix(32, 48, seed=1)), wide_out[:, 16:64]
    tilewright.gemm(a, b, out=out)
    torch.testing.assert_close(out, expected(a, b, torch.bfloat16))
    assert wide_out[:, :16].isnan().all()
    assert wide_out[:, 64:].isnan().all()


def test_copies_are_said_in_the_log(host: Context, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "tilewright"):
        tilewright.gemm(matrix(16, 12), column_major(matrix(12, 16)))
    assert "copies a, b" in caplog.text
    caplog.clear()
    tilewright.gemm(matrix(16, 16), column_major(matrix(16, 16)))
    assert not caplog.text


@pytest.mark.parametrize("which", ["a", "b", "c", "out", "bias"])
def test_addresses_off_by_one_element(host: Context, which: str) -> None:
    def shifted(tensor: torch.Tensor) -> torch.Tensor:
        room = torch.empty(tensor.numel() + 1, dtype=tensor.dtype)
        return room[1:].view(tensor.shape).copy_(tensor)

    tensors = {"a": matrix(16, 32), "b": matrix(24, 32), "c": matrix(16, 24), "bias": matrix(24)}
    tensors["out"] = torch.zeros(16, 24, dtype=torch.bfloat16)
    for mixed in ((), (which,)):  # the plan for aligned addresses is made first, and is in use
        call = {name: shifted(tensor) if name in mixed else tensor for name, tensor in tensors.items()}
        a, b = call.pop("a"), call.pop("b").t()
        d = tilewright.gemm(a, b, beta=1.0, **call)
        reference = a.double() @ b.double() + call["c"].double() + call["bias"].double()
        torch.testing.assert_close(d, reference.bfloat16())
