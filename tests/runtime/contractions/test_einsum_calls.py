"""Calls of `tilewright.einsum`: what is refused, what is copied, and what a warm call looks at."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import torch
from einsum_operands import operand, terms

import tilewright
from tilewright.context import Context
from tilewright.contractions import einsum as contractions
from tilewright.errors import ArgumentError


def test_an_output_whose_letters_are_apart_is_refused(host: Context) -> None:
    out = torch.empty(2, 7, 24, 40, dtype=torch.bfloat16)[:, :6]
    with pytest.raises(ArgumentError, match=r"out: its strides are .* expected gbm"):
        tilewright.einsum("gbmk,nk->gbmn", operand("gbmk", 0), operand("nk", 1), out=out)


@pytest.mark.parametrize(
    ("change", "argument"),
    [
        ({"a": torch.zeros(6, 3)}, "a"),
        ({"b": torch.zeros(3, 8, 15)}, "b"),
        ({"out": torch.zeros(6, 3, 9)}, "out"),
        ({"c": torch.zeros(6, 3, 9)}, "c"),
    ],
)
def test_extents_that_differ_are_named(host: Context, change: dict[str, torch.Tensor], argument: str) -> None:
    operands = {"a": operand("bhr", 0), "b": operand("hdr", 1)} | change
    with pytest.raises(ArgumentError) as error:
        tilewright.einsum("bhr,hdr->bhd", operands.pop("a"), operands.pop("b"), **operands)
    assert error.value.argument == argument


@pytest.mark.parametrize("empty", list("abkcd"))
@pytest.mark.parametrize("given", [False, True])
def test_an_extent_of_0(
    all_hosts: Context, caplog: pytest.LogCaptureFixture, given: bool, empty: str
) -> None:
    """Strides of a tensor without elements say nothing of what follows what in memory."""
    extents = dict.fromkeys("abkcd", 8) | {empty: 0}
    a, b, out = (torch.ones([extents[x] for x in term]).bfloat16() for term in ("abkc", "kcd", "abd"))
    with caplog.at_level(logging.WARNING):
        made = tilewright.einsum("abkc,kcd->abd", a, b, out=out.fill_(float("nan")) if given else None)
    assert torch.equal(made, torch.einsum("abkc,kcd->abd", a, b))
    assert not caplog.messages


@pytest.mark.parametrize(
    ("change", "argument"),
    [
        ({"equation": None}, "equation"),
        ({"equation": ["mk,nk->nm"]}, "equation"),
        ({"a": [[1.0]]}, "a"),
        ({"b": None}, "b"),
        ({"c": 1.0, "beta": 1.0}, "c"),
        ({"out": "out"}, "out"),
        ({"a": torch.zeros(24, 16).to_sparse()}, "a"),
        ({"a": torch.zeros(24, 16, dtype=torch.float64)}, "a"),
        ({"b": torch.zeros(40, 16, dtype=torch.float64)}, "b"),
        ({"a": torch.zeros(24, 16, dtype=torch.bfloat16, requires_grad=True)}, "a"),
    ],
)
@pytest.mark.parametrize("equation", ["mk,nk->mn", "mk,nk->nm"])  # of the second the operands change places
@pytest.mark.parametrize("given", [False, True])
def test_the_argument_that_is_wrong_is_named(
    host: Context, equation: str, given: bool, change: dict[str, Any], argument: str
) -> None:
    call = {"equation": equation, "a": operand("mk", 0), "b": operand("nk", 1)}
    if given:
        call["out"] = operand(equation[-2:], 2)
    with pytest.raises(ArgumentError) as error:
        tilewright.einsum(**call | change)
    assert error.value.argument == argument
    assert str(error.value).startswith(argument)


def test_the_type_is_that_of_a_product(host: Context) -> None:
    a, b = operand("bhr", 0, torch.int8), operand("hdr", 1, torch.int8)
    assert tilewright.einsum("bhr,hdr->bhd", a, b).dtype == torch.int32


def test_like_an_earlier_call_nothing_is_looked_at_again(
    host: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither letters nor views, while operands lie as before and numbers are floats; each call's count."""
    looked: list[str] = []
    lowered_call = contractions.lowered_call

    def look(equation: str, *operands: torch.Tensor, **options: object) -> contractions.LoweredCall:
        looked.append(equation)
        return lowered_call(equation, *operands, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(contractions, "lowered_call", look)
    equations = ("mk,nk->mn", "mk,nk->nm")  # in order, and with operands that change places
    for seed in range(3):
        for equation in equations:
            a, b, c = (operand(term, seed + i) for i, term in enumerate(terms(equation)))
            expected = torch.einsum(equation, a.double(), b.double())
            out = torch.full_like(c, float("nan"))
            for alpha, beta in ((1.0, 0.0), (0.5, 2.0 + seed)):
                assert tilewright.einsum(equation, a, b, out=out, c=c, alpha=alpha, beta=beta) is out
                torch.testing.assert_close(
                    out, (alpha * expected + beta * c.double()).bfloat16(), rtol=1.6e-2, atol=2e-2
                )
    assert looked == [equation for equation in equations for _ in range(2)]
    tilewright.einsum(equation, a, b, out=out, alpha=2)
    torch.testing.assert_close(out, (2 * expected).bfloat16(), rtol=1.6e-2, atol=2e-2)
    with pytest.raises(ArgumentError, match="gradient"):
        tilewright.einsum(equation, a.clone().requires_grad_(), b, out=out)
    with pytest.raises(ArgumentError, match="its shape"):
        tilewright.einsum(equation, a, b, out=out[:, 1:])
    with pytest.raises(ArgumentError, match="overlap"):
        tilewright.einsum(equation, out.view(-1)[: a.numel()].view(a.shape), b, out=out)


def test_factors_of_integers_are_checked_in_each_call(host: Context) -> None:
    """No launcher is kept that would take any factor."""
    a, b = torch.ones(16, 32, dtype=torch.int8), torch.ones(32, 32, dtype=torch.int8).t()
    out = torch.empty(16, 32, dtype=torch.int32)
    for alpha in (2.0, 3.0, 2.0):
        tilewright.einsum("mk,kn->mn", a, b, out=out, alpha=alpha)
        assert torch.equal(out, torch.full_like(out, 32 * int(alpha)))
    for _ in range(2):
        with pytest.raises(ArgumentError, match=r"alpha: expected an integer .*, got 0\.5"):
            tilewright.einsum("mk,kn->mn", a, b, out=out, alpha=0.5)
        with pytest.raises(ArgumentError, match=r"beta: expected an integer .*, got 0\.5"):
            tilewright.einsum("mk,kn->mn", a, b, out=out, c=out, beta=0.5)


@pytest.mark.parametrize("out_dtype", ["bfloat16", 6, torch.int32, torch.qint8, b"x"])
@pytest.mark.parametrize("equation", ["mk,nk->mn", "bhr,hdr->bhd"])
def test_types_that_no_product_has(host: Context, equation: str, out_dtype: Any) -> None:
    a, b = (operand(term, 0) for term in terms(equation)[:2])
    with pytest.raises(ArgumentError, match=r"out_dtype: (it is .*; expected .*|expected one of .*, got)"):
        tilewright.einsum(equation, a, b, out_dtype=out_dtype)
