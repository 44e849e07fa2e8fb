"""`gemm` of 8-bit operands, by kernels of the host."""

from __future__ import annotations

import itertools
import logging
from dataclasses import replace
from typing import Any

import pytest
import torch
from gemm_operands import column_major, expected, fp8, matrix, within

import tilewright
from tilewright.context import Context
from tilewright.errors import AlignmentError, ArgumentError, ArgumentTypeError
from tilewright.families.gemm.problem import Problem


@pytest.mark.parametrize(
    ("argument", "a", "b"),
    [
        ("a", (16, 24), (16, 24)),
        ("b", (16, 32), "row_major"),
        ("a", "column_major", (16, 32)),
        ("out", (16, 32), (18, 32)),
        ("a", "shifted", (16, 32)),
    ],
)
def test_8_bit_operands_are_never_copied(host: Context, argument: str, a: Any, b: Any) -> None:
    def make(what: Any) -> torch.Tensor:
        if what == "row_major":
            return matrix(32, 16, dtype=torch.int8).t()
        if what == "column_major":
            return column_major(matrix(16, 32, dtype=torch.int8))
        if what == "shifted":
            return torch.zeros(513, dtype=torch.int8)[1:].view(16, 32)
        return matrix(*what, dtype=torch.int8)

    left, right = make(a), make(b).t()
    with pytest.raises(AlignmentError) as caught:
        tilewright.gemm(left, right.t().contiguous().t() if b != "row_major" else right)
    assert caught.value.argument == argument


def test_a_bias_of_8_bit_operands_is_copied(host: Context, caplog: pytest.LogCaptureFixture) -> None:
    a, b = matrix(16, 32, dtype=torch.int8), matrix(24, 32, dtype=torch.int8)
    bias = torch.arange(25, dtype=torch.int32)[1:]  # at an address that TMA does not read
    with caplog.at_level(logging.WARNING, "tilewright"):
        d = tilewright.gemm(a, b.t(), bias=bias)
    assert torch.equal(d.double(), a.double() @ b.t().double() + bias)
    assert "copies bias, which no kernel takes as it lies" in caplog.text


@pytest.mark.parametrize("shape", [(5, 7, 3), (32, 18, 24), (16, 1, 1), (40, 264, 72)])
@pytest.mark.parametrize("results", ["made", "within", "odd_address"])
def test_fp8_of_any_extents_is_not_copied(
    host: Context, shape: tuple[int, int, int], results: str, caplog: pytest.LogCaptureFixture
) -> None:
    """What TMA reads are rows at multiples of 16 bytes, however long; what it does not store, threads do."""
    m, n, k = shape
    a, b = fp8(m, k), fp8(n, k, seed=1)
    left, right = within((m, k), a.dtype).copy_(a), within((n, k), b.dtype).copy_(b).t()
    reference = expected(a, b.t(), torch.bfloat16)
    out = {
        "made": None,
        "within": within((m, n), torch.bfloat16),
        "odd_address": torch.empty(m * n + 1, dtype=torch.bfloat16)[1:].view(m, n),
    }[results]
    with caplog.at_level(logging.WARNING, "tilewright"):
        actual = tilewright.gemm(left, right, out=out)
    torch.testing.assert_close(actual, reference)
    assert not caplog.records
    plan = next(iter(host.plans.values()))
    assert "turns" not in str(plan.tactic) or (n * 2 % 16 == 0 and results == "made")


def test_an_address_that_a_kernel_does_not_store_to_leads_to_another(host: Context) -> None:
    """A plan is remembered for aligned results; one that is not aligned comes with the same key."""
    a, b = fp8(16, 32), fp8(24, 32, seed=1).t()
    room = torch.empty(16 * 24 + 8, dtype=torch.bfloat16)
    for offset in (0, 1, 4):
        out = room[offset : offset + 16 * 24].view(16, 24)
        tactic = "host_e4m3_lean_turns" if offset == 0 else None
        tilewright.gemm(a, b, out=out, tactic=tactic)
        torch.testing.assert_close(out, expected(a, b, torch.bfloat16))
        out.zero_()
    with pytest.raises(ArgumentError, match="stores D by TMA only"):
        tilewright.gemm(a, b, out=room[1 : 1 + 16 * 24].view(16, 24), tactic="host_e4m3_lean_turns")


@pytest.mark.parametrize("argument", ["a", "b"])
def test_fp8_that_tma_cannot_read_is_refused(host: Context, argument: str) -> None:
    a, b = within((16, 24), torch.float8_e4m3fn), within((32, 24), torch.float8_e4m3fn)
    operands = {"a": a, "b": b, argument: fp8(16 if argument == "a" else 32, 24)}  # rows of 24 bytes
    with pytest.raises(AlignmentError, match="leading dimension 24") as caught:
        tilewright.gemm(operands["a"], operands["b"].t())
    assert caught.value.argument == argument


def test_fp8_results_are_scaled_saturated_and_give_their_amax(host: Context) -> None:
    """Scaled, saturated, with the largest magnitude before that."""
    a, b = fp8(16, 32), fp8(24, 32, seed=1).t()
    scale, amax = torch.tensor(50.0), torch.tensor([3.0])
    actual = tilewright.gemm(a, b, out_dtype=torch.float8_e4m3fn, scale_result=scale, amax=amax)
    exact = a.double() @ b.double()
    assert float(amax) == pytest.approx(float(exact.abs().max()), rel=1e-6)
    assert float(amax) * 50 > 448, "nothing saturates"
    reference = (exact * 50).clamp(-448, 448).to(torch.float8_e4m3fn)
    torch.testing.assert_close(actual.float(), reference.float(), rtol=0, atol=0)
    amax.fill_(1e6)
    tilewright.gemm(a, b, out=actual, scale_result=scale, amax=amax)
    assert float(amax) == 1e6, "it is raised, never lowered"


def test_c_and_bias_of_other_types(host: Context) -> None:
    a, b = fp8(16, 32), fp8(24, 32, seed=1).t()
    c, bias = matrix(16, 24, dtype=torch.float32, seed=2), matrix(24, dtype=torch.float32, seed=3)
    for dtype in (torch.bfloat16, torch.float8_e4m3fn):
        for c_dtype, bias_dtype in itertools.product((torch.float32, torch.bfloat16), repeat=2):
            addend, bias_row = c.to(c_dtype), bias.to(bias_dtype)
            actual = tilewright.gemm(a, b, out_dtype=dtype, c=addend, beta=-0.5, bias=bias_row)
            reference = a.double() @ b.double() - 0.5 * addend.double() + bias_row.double()
            torch.testing.assert_close(actual.float(), reference.to(dtype).float(), rtol=0, atol=0)
    with pytest.raises(ArgumentTypeError, match="float8_e4m3fn; expected one of bfloat16"):
        tilewright.gemm(a, b, out_dtype=torch.float8_e4m3fn, c=fp8(16, 24), beta=1.0)


@pytest.mark.parametrize("name", ["c_type", "bias_type"])
def test_a_type_that_is_the_default_is_no_other_problem(name: str) -> None:
    """An entry that was tuned for the one is found for the other."""
    plain = Problem(16, 24, 32, a="e4m3", b="e4m3", bias=True)
    assert replace(plain, **{name: "bf16"}) == plain
    assert replace(plain, **{name: "f32"}) != plain


def test_no_k_of_fp8(host: Context) -> None:
    a, b = fp8(16, 32)[:, :0], fp8(24, 32).t()[:0]
    bias, amax = matrix(24), torch.zeros(())
    actual = tilewright.gemm(
        a, b, out_dtype=torch.float8_e4m3fn, bias=bias, amax=amax, scale_result=torch.tensor(1000.0)
    )
    reference = (bias.float() * 1000).clamp(-448, 448).to(torch.float8_e4m3fn).float().expand(16, 24)
    torch.testing.assert_close(actual.float(), reference, rtol=0, atol=0)
    assert float(amax) == float(bias.abs().max())
