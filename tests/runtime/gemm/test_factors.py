"""Factors of products and of C: what beta is by default, and that a factor of 0 leaves operands unread."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable

import blockscaled_operands as blockscaled
import pytest
import torch

import tilewright
import tilewright.torch_ops
from tilewright.calls.publish import published
from tilewright.context import Context
from tilewright.errors import ArgumentError

OPS = torch.ops.tilewright
BF16 = torch.bfloat16


def matrix(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(BF16)


A, B, C, BIAS = matrix(16, 32), matrix(24, 32, seed=1).t(), matrix(16, 24, seed=2), matrix(24, seed=3)
BATCH = matrix(5, 16, 32), matrix(5, 24, 32, seed=1).mT
NAN = torch.full_like(A, torch.nan), torch.full_like(B, torch.inf)


def test_every_beta_is_1_with_c_and_0_without() -> None:
    with_beta = [op for op in published.values() if "beta" in inspect.signature(op.function).parameters]
    assert {op.name for op in with_beta} >= {"gemm", "reduced_gemm", "mm_nvfp4", "mm_mxfp8"}
    for op in with_beta:
        assert inspect.signature(op.function).parameters["beta"].default is None
        assert op.addends == {"beta": "c"}


@pytest.mark.parametrize("out", [False, True])
def test_c_is_added_by_default(host: Context, out: bool) -> None:
    options = {"out": torch.empty_like(C)} if out else {}
    for _ in range(3):
        actual = tilewright.gemm(A, B, c=C, **options)
        assert torch.equal(actual, torch.addmm(C.float(), A.float(), B.float()).to(BF16))
        assert torch.equal(actual, tilewright.gemm(A, B, c=C, beta=1.0))
        assert torch.equal(tilewright.gemm(A, B, c=C, beta=None, **options), actual)
        assert torch.equal(tilewright.gemm(A, B, **options), tilewright.gemm(A, B, beta=0.0))
        unread = torch.full_like(C, torch.nan)
        assert torch.equal(tilewright.gemm(A, B, c=unread, beta=0.0, **options), tilewright.gemm(A, B))
        assert torch.equal(tilewright.gemm(A, B, c=unread, beta=0, **options), tilewright.gemm(A, B))


def test_c_that_is_out_is_added_to_by_default(host: Context) -> None:
    expected = tilewright.gemm(A, B, c=C, beta=1.0)
    for _ in range(3):
        out = C.clone()
        assert torch.equal(tilewright.gemm(A, B, c=out, out=out), expected)
    plan, out = tilewright.plan(tilewright.gemm, A, B, c=out, out=out), C.clone()
    assert torch.equal(plan(A, B, out), expected)


def test_a_beta_without_c_is_still_refused(host: Context) -> None:
    with pytest.raises(ArgumentError, match=r"^c: it is None and beta is 1.0; pass c=out"):
        tilewright.gemm(A, B, beta=1.0)


def test_default_beta_of_plans(host: Context) -> None:
    plan = tilewright.plan(tilewright.gemm, A, B, c=C)
    assert torch.equal(plan(A, B), tilewright.gemm(A, B, c=C, beta=1.0))
    assert torch.equal(plan(A, B, beta=None), plan(A, B))
    assert torch.equal(plan(A, B, beta=0.5), tilewright.gemm(A, B, c=C, beta=0.5))
    without = tilewright.plan(tilewright.gemm, A, B)
    for changes in ({"c": C}, {"c": C, "beta": None}, {"c": C, "beta": 1.0}):
        with pytest.raises(ArgumentError, match=r"^c: "):  # and is not left out without a word
            without(A, B, **changes)


def test_default_beta_in_torch(host: Context) -> None:
    expected = tilewright.gemm(A, B, c=C, beta=1.0)
    assert torch.equal(OPS.gemm(A, B, c=C), expected)
    for options, held in (({"c": C}, torch.zeros_like(C)), ({"accumulate": True}, C.clone())):
        OPS.gemm_out(A, B, held, **options)
        assert torch.equal(held, expected)
    torch._dynamo.reset()
    compiled = torch.compile(lambda a, c: tilewright.gemm(a, B, c=c), fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(A, C), expected)
    assert torch.equal(compiled(A, None), tilewright.gemm(A, B))
    assert torch.equal(torch.vmap(lambda a: tilewright.gemm(a, B, c=C))(A.expand(2, 16, 32))[1], expected)


def test_default_beta_of_other_products(all_hosts: Context) -> None:
    for _ in range(3):
        actual = tilewright.reduced_gemm(*BATCH, c=C)
        assert torch.equal(actual, tilewright.reduced_gemm(*BATCH, c=C, beta=1.0))
        assert not torch.equal(actual, tilewright.reduced_gemm(*BATCH))
        for equation, a, b in (("mk,kn->mn", A, B), ("bmk,bkn->mn", *BATCH)):
            out = torch.empty_like(C)
            expected = tilewright.einsum(equation, a, b, c=C, beta=1.0)
            assert torch.equal(tilewright.einsum(equation, a, b, c=C), expected)
            assert torch.equal(tilewright.einsum(equation, a, b, c=C, out=out), expected)
            plain = tilewright.einsum(equation, a, b)
            assert torch.equal(tilewright.einsum(equation, a, b, c=C, beta=0.0, out=out), plain)


def test_default_beta_of_scaled_formats(blackwell: Context) -> None:
    (a, a_descale), (b, b_descale) = (blockscaled.operand(rows, 128, "nvfp4") for rows in (16, 32))
    operands, c = (a, b.mT, a_descale, b_descale), matrix(16, 32)
    for _ in range(2):
        actual = tilewright.mm_nvfp4(*operands, c=c)
        assert torch.equal(actual, tilewright.mm_nvfp4(*operands, c=c, beta=1.0))
        assert not torch.equal(actual, tilewright.mm_nvfp4(*operands))


# Calls of an alpha of 0, whose operands hold NaN and infinities, and what they compute.
ZERO: dict[str, tuple[Callable[[float], torch.Tensor], torch.Tensor]] = {
    "gemm": (lambda alpha: tilewright.gemm(*NAN, alpha=alpha), torch.zeros_like(C)),
    "c": (lambda alpha: tilewright.gemm(*NAN, c=C, alpha=alpha, beta=-2.0), -2 * C),
    "bias": (
        lambda alpha: tilewright.gemm(*NAN, c=C, bias=BIAS, alpha=alpha, activation="relu"),
        (C.float() + BIAS.float()).relu().to(BF16),
    ),
    "out": (lambda alpha: tilewright.gemm(*NAN, c=C, alpha=alpha, out=torch.empty_like(C)), C),
    "batch": (
        lambda alpha: tilewright.gemm(NAN[0].expand(3, 16, 32), NAN[1], c=C, alpha=alpha),
        C.expand(3, 16, 24),
    ),
    "odd": (lambda alpha: tilewright.gemm(NAN[0][:, :7], NAN[1][:7, :5], alpha=alpha), torch.zeros(16, 5)),
    "torch": (lambda alpha: OPS.gemm(*NAN, c=C, alpha=alpha), C),
    "plan": (lambda alpha: tilewright.plan(tilewright.gemm, *NAN, c=C, alpha=alpha)(*NAN), C),
    "plan's call": (lambda alpha: tilewright.plan(tilewright.gemm, *NAN, c=C)(*NAN, alpha=alpha), C),
    "plan with out": (
        lambda alpha: tilewright.plan(tilewright.gemm, *NAN, c=C)(*NAN, torch.empty_like(C), alpha=alpha),
        C,
    ),
    "reduced": (
        lambda alpha: tilewright.reduced_gemm(NAN[0].expand(5, 16, 32), BATCH[1], c=C, alpha=alpha, beta=2),
        2 * C,
    ),
    "einsum": (lambda alpha: tilewright.einsum("mk,kn->mn", *NAN, alpha=alpha, c=C), C),
    "einsum of a batch": (
        lambda alpha: tilewright.einsum("bmk,bkn->mn", NAN[0].expand(5, 16, 32), BATCH[1], alpha=alpha, c=C),
        C,
    ),
    "einsum with out": (
        lambda alpha: tilewright.einsum(
            "mk,kn->mn", *NAN, alpha=alpha, c=C, beta=-1.0, out=torch.empty_like(C)
        ),
        -C,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", ZERO)
@pytest.mark.parametrize("warm", [False, True])
@pytest.mark.parametrize("zero", [0.0, -0.0, 0])
def test_an_alpha_of_0_reads_no_operand(all_hosts: Context, case: str, warm: bool, zero: float) -> None:
    call, expected = ZERO[case]
    for _ in range(3 * warm):
        assert call(1.0).isnan().any()
    for _ in range(2):
        assert torch.equal(call(zero), expected.to(BF16))
    assert call(1.0).isnan().any()
    assert torch.equal(call(zero), expected.to(BF16))


@pytest.mark.parametrize("factor", [math.nan, math.inf])
def test_an_alpha_that_is_no_number_is_no_0(host: Context, factor: float) -> None:
    assert not tilewright.gemm(A, B, alpha=factor).isfinite().any()


def test_an_alpha_of_0_for_fp8(host: Context) -> None:
    a, b = (operand.to(torch.float8_e4m3fn) for operand in NAN)
    amax, c = torch.zeros(1), C * 100
    actual = tilewright.gemm(
        a, b, c=c, alpha=0.0, amax=amax, out_dtype=torch.float8_e4m3fn, scale_result=torch.tensor(2.0)
    )
    assert torch.equal(actual.float(), (c.float() * 2).clamp(-448, 448).to(torch.float8_e4m3fn).float())
    assert amax == c.float().abs().max()


def test_an_alpha_of_0_for_integers(host: Context) -> None:
    a, b = torch.full((16, 32), 127, dtype=torch.int8), torch.full((32, 32), 127, dtype=torch.int8)
    c = torch.arange(16 * 32, dtype=torch.int32).view(16, 32)
    for alpha in (3, 0, 2, 0):
        actual = tilewright.gemm(a, b.t(), c=c, alpha=alpha, beta=-2)
        assert torch.equal(actual, alpha * 32 * 127 * 127 - 2 * c)
    with pytest.raises(ArgumentError, match=r"^beta: .*, got 0\.5"):
        tilewright.gemm(a, b.t(), c=c, alpha=0, beta=0.5)


def test_what_an_alpha_of_0_still_checks(host: Context) -> None:
    plan = tilewright.plan(tilewright.gemm, A, B, c=C)
    with pytest.raises(ArgumentError, match=r"^b: its shape is .* expected k of 31"):
        tilewright.gemm(A[:, :-1], B, alpha=0.0)
    with pytest.raises(ArgumentError, match=r"^a: it is \[8, 32\].*the plan is for \[16, 32\]"):
        plan(A[:8], B, alpha=0.0)
    planned = tilewright.plan(tilewright.gemm, A, B, c=C, alpha=0.0)
    with pytest.raises(ArgumentError, match=r"^alpha: it is 2.0; the plan is for alpha of 0"):
        planned(A, B, alpha=2.0)
    assert torch.equal(planned(A, B, alpha=0), C)
    assert torch.equal(tilewright.plan(tilewright.gemm, A[:, :0], B[:0], c=C)(A[:, :0], B[:0], alpha=2.0), C)
