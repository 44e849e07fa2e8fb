"""`tilewright.transpose_fp8` without a GPU: shapes, results of a kernel of the host, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import tilewright
import tilewright.torch_ops
from tilewright.context import Context
from tilewright.errors import ArgumentError, ArgumentTypeError

SIZES = torch.tensor([128, 256], dtype=torch.int32)


def fp8(*shape: int, dtype: torch.dtype = torch.float8_e4m3fn) -> torch.Tensor:
    return torch.randint(256, shape, dtype=torch.uint8).view(dtype)


def as_bytes(x: torch.Tensor) -> torch.Tensor:
    return x.view(torch.uint8)


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2])
@pytest.mark.parametrize("shape", [(1, 1), (37, 24), (3, 130, 16)])
def test_columns_become_rows(transpose_fp8_host: Context, shape: tuple[int, ...], dtype: torch.dtype) -> None:
    x = fp8(*shape, dtype=dtype)
    made = tilewright.transpose_fp8(x)
    assert made.dtype == dtype
    assert made.is_contiguous()
    assert torch.equal(as_bytes(made), as_bytes(x).mT)


def test_groups_lie_one_behind_the_other(transpose_fp8_host: Context) -> None:
    x = fp8(384, 24)
    made = as_bytes(tilewright.transpose_fp8(x, SIZES)).flatten()
    first, second = as_bytes(x).split([128, 256])
    assert torch.equal(made, torch.cat([first.mT.flatten(), second.mT.flatten()]))


def test_groups_go_to_a_tensor_with_gaps_by_a_copy(transpose_fp8_host: Context) -> None:
    x, wide = fp8(384, 24), torch.full((24, 400), 7, dtype=torch.uint8)
    out = wide[:, :384].view(x.dtype)
    assert tilewright.transpose_fp8(x, SIZES, out=out) is out
    assert torch.equal(as_bytes(out), as_bytes(tilewright.transpose_fp8(x, SIZES)))
    assert (wide[:, 384:] == 7).all()


def test_shape_and_type_are_known_to_torch(transpose_fp8_host: Context) -> None:
    x = torch.empty(5, 384, 24, dtype=torch.float8_e5m2, device="meta")
    made = torch.ops.tilewright.transpose_fp8(x)
    assert (made.shape, made.dtype) == ((5, 24, 384), torch.float8_e5m2)


@pytest.mark.parametrize(
    ("options", "argument", "reason"),
    [
        ({"x": fp8(24)}, "x", "three with a batch first"),
        ({"x": fp8(24, 384).mT}, "x", "expected contiguous rows"),
        ({"group_rows": SIZES[:0]}, "group_rows", "expected a number for each group"),
        ({"group_rows": SIZES.long()}, "group_rows", "expected int32"),
        ({"x": fp8(2, 384, 24), "group_rows": SIZES}, "x", "expected two dimensions with groups"),
        ({"out": fp8(384, 24)}, "out", r"expected \[24, 384\]"),
    ],
)
def test_what_is_refused(
    transpose_fp8_host: Context, options: dict[str, Any], argument: str, reason: str
) -> None:
    with pytest.raises(ArgumentError, match=reason) as error:
        tilewright.transpose_fp8(**{"x": fp8(384, 24), **options})
    assert error.value.argument == argument


def test_other_types_are_refused(transpose_fp8_host: Context) -> None:
    with pytest.raises(ArgumentTypeError, match=r"expected one of .*float8_e4m3fn.*"):
        tilewright.transpose_fp8(torch.zeros(4, 4, dtype=torch.bfloat16))
