"""Operands of `gemm` that share memory: C and D, a result beside its operands, batches within each other."""

from __future__ import annotations

import random

import pytest
import torch
from gemm_operands import column_major, expected, matrix

import tilewright
from tilewright.calls import memory
from tilewright.context import Context
from tilewright.errors import ArgumentError


@pytest.mark.parametrize("n", [24, 20])  # 20: b, C and D are copied
def test_in_place_accumulation(host: Context, n: int) -> None:
    a, b = matrix(16, 32), column_major(matrix(32, n))
    out = matrix(16, n, seed=7)
    reference = (a.double() @ b.double() + out.double()).bfloat16()
    tilewright.gemm(a, b, c=out, out=out, beta=1.0)
    torch.testing.assert_close(out, reference)


@pytest.mark.parametrize("n", [24, 20])  # 20: b, C and D are copied
def test_a_c_of_all_batches_that_is_one_of_the_results_is_refused(host: Context, n: int) -> None:
    """It has D's address and leading dimension, and would be read after it is written."""
    a, b = matrix(3, 16, 32), column_major(matrix(3, 32, n))
    out = matrix(3, 16, n, seed=7)
    before = out.clone()
    with pytest.raises(ArgumentError, match="out: it overlaps c"):
        tilewright.gemm(a, b, c=out[0], out=out, beta=1.0)
    assert torch.equal(out, before)


@pytest.mark.parametrize("n", [24, 20])  # 20: b, C and D are copied, with n of 24
@pytest.mark.parametrize("betas", [(0.0, 0.5), (0.5, 0.0)])
def test_c_is_added_whatever_a_call_before_did_with_it(
    host: Context, n: int, betas: tuple[float, float]
) -> None:
    """Where beta is 0, C is not read, and may hold anything."""
    a, b = matrix(16, 32), column_major(matrix(32, n))
    for beta in betas:
        # In a wider tensor C lies well enough for TMA: it is copied because D's n is padded.
        c = matrix(16, 32, seed=7)[:, :n] if beta else torch.full((16, n), float("nan")).bfloat16()
        added = beta * c.double() if beta else 0
        torch.testing.assert_close(
            tilewright.gemm(a, b, c=c, beta=beta), (a.double() @ b.double() + added).bfloat16()
        )


@pytest.mark.parametrize("n", [24, 20])
def test_results_with_the_batch_between_rows_and_columns(host: Context, n: int) -> None:
    a, b = matrix(16, 3, 32).transpose(0, 1), column_major(matrix(3, 32, n))
    room = torch.full((16, 3, 2 * n), float("nan"), dtype=torch.bfloat16)
    for out in (torch.empty(16, 3, n, dtype=torch.bfloat16).transpose(0, 1), room[..., :n].transpose(0, 1)):
        assert tilewright.gemm(a, b, out=out) is out
        torch.testing.assert_close(out, torch.bmm(a.double(), b.double()).bfloat16())
    assert room[..., n:].isnan().all()
    overlapping = torch.empty(4096, dtype=torch.bfloat16).as_strided((3, 16, n), (n - 8, 3 * n, 1))
    with pytest.raises(ArgumentError, match="elements of it overlap"):
        tilewright.gemm(a, b, out=overlapping)


def interleaved(rows: int, *columns: int) -> tuple[torch.Tensor, ...]:
    """Matrices side by side in one buffer."""
    return matrix(rows, sum(columns)).split(columns, dim=1)


@pytest.mark.parametrize("widths", [(32, 24), (12, 24), (32, 20)])
def test_operands_beside_the_result(host: Context, widths: tuple[int, int]) -> None:
    k, n = widths
    for order in ((k, n), (n, k)):
        parts = interleaved(16, *order)
        a, out = parts if order == (k, n) else parts[::-1]
        b = column_major(matrix(k, n, seed=1))
        reference = expected(a, b, torch.bfloat16)
        tilewright.gemm(a, b, out=out)
        torch.testing.assert_close(out, reference)
    # In a batch, and between the columns of each row.
    buffer = matrix(16, 3, k + n)
    a, out = buffer[..., :k].transpose(0, 1), buffer[..., k:].transpose(0, 1)
    reference = torch.matmul(a.double(), b.double()).bfloat16()
    tilewright.gemm(a, b, out=out)
    torch.testing.assert_close(out, reference)
    c, bias, out = interleaved(16, n, n, n)
    reference = (a[0].double() @ b.double() + c.double() + bias[0].double()).bfloat16()
    tilewright.gemm(a[0], b, c=c, beta=1.0, bias=bias[0], out=out)
    torch.testing.assert_close(out, reference)


@pytest.mark.parametrize("n", [24, 20])
@pytest.mark.parametrize("name", ["a", "b", "c", "bias", "scale_a", "scale_b"])
def test_operands_within_the_result(host: Context, name: str, n: int) -> None:
    room = torch.zeros(32, 64, dtype=torch.bfloat16)
    out = room[:16, 8 : 8 + n]
    tensors = {
        "a": room[:16, :16],
        "b": room[:n, 16:32].t(),
        "c": room[:16, 16 : 16 + n],
        "bias": room[3, 8 : 8 + n],
        "scale_a": room[5, 8:10].view(torch.float32),
        "scale_b": room[15, 8 + n - 2 : 8 + n].view(torch.float32),
    }
    call = {"a": matrix(16, 16), "b": matrix(n, 16).t(), "c": matrix(16, n), name: tensors[name]}
    with pytest.raises(ArgumentError, match=f"it overlaps {name}, or lies among") as caught:
        tilewright.gemm(call.pop("a"), call.pop("b"), out=out, beta=1.0, **call)
    assert caught.value.argument == "out"


def test_overlap_is_exact_for_matrices_of_one_stride() -> None:
    """Against the bytes themselves; and never too few."""
    dice = random.Random(0)
    room = torch.zeros(4096, dtype=torch.bfloat16)
    said_too_much = 0
    for _ in range(3000):
        row = dice.choice([16, 24, 40])
        views = []
        for _ in range(2):
            extents = (dice.randint(1, 3), dice.randint(1, 6), dice.randint(1, row))
            strides = (dice.choice([0, 8, row, 7 * row]), dice.choice([row, row, 2 * row]), 1)
            views.append(room.as_strided(extents, strides, dice.randint(0, 200)))
        x, y = views
        room.zero_()
        x.fill_(1)
        truth = bool(y.any())
        assert memory.overlap(x, y) or not truth
        exact = all(view.shape[0] == 1 and view.stride(1) == row for view in views)
        said_too_much += memory.overlap(x, y) and not truth and exact and min(x.shape[1], y.shape[1]) > 4
    assert said_too_much == 0
