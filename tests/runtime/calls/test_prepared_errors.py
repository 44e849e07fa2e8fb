"""What is wrong with a plan or a call of it, and what the error says."""

from __future__ import annotations

import copy
import pickle
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from prepared_operands import BF16, ROOM, A, B, C, empty, matrix

import tilewright
from tilewright.context import Context
from tilewright.errors import ArgumentError, ArgumentTypeError, NoKernelError, NotBuiltError

WRONG: list[tuple[type[ArgumentError], str, dict[str, Any]]] = [
    (ArgumentError, r"a: it is \[8, 32\] with strides \(32, 1\).*is for \[16, 32\]", {"a": A[:8]}),
    (ArgumentError, r"a: it is \[16, 32\] with strides \(64, 1\)", {"a": matrix(16, 64)[:, :32]}),
    (ArgumentError, r"a: it is \[1, 16, 32\]", {"a": A.unsqueeze(0)}),
    (ArgumentError, r"b: it is \[32, 24\] with strides \(24, 1\)", {"b": B.contiguous()}),
    (ArgumentError, r"out: it is \[16, 32\]", {"out": matrix(16, 32)}),
    (ArgumentError, r"out: it is \[16, 24\] with strides \(0, 1\)", {"out": matrix(24).expand(16, 24)}),
    (ArgumentError, "out: it overlaps c", {"out": ROOM[1:]}),
    (ArgumentTypeError, "b: a is torch.bfloat16 and b is torch.float16", {"b": B.half()}),
    (ArgumentTypeError, "out: its dtype is torch.float16", {"out": C.half()}),
    (ArgumentError, "a: its address", {"a": torch.zeros(16 * 32 + 1, dtype=BF16)[1:].view(16, 32)}),
]


@pytest.mark.parametrize(("error", "message", "change"), WRONG, ids=[wrong[1] for wrong in WRONG])
def test_wrong_operands(
    host: Context, error: type[ArgumentError], message: str, change: dict[str, Any]
) -> None:
    c = ROOM[:16]
    plan = tilewright.plan(tilewright.gemm, A, B, c=c, beta=1.0)
    call = {"a": A, "b": B, "out": empty(), **change}
    with pytest.raises(error, match=message):
        plan(call["a"], call["b"], call["out"])
    assert torch.equal(plan(A, B), tilewright.gemm(A, B, c=c, beta=1.0))


@pytest.mark.parametrize(
    ("operands", "message"),
    [
        ((A.half(), B.half()), r"^a: it is .* torch\.float16 on cpu; the plan is for .* torch\.bfloat16"),
        ((A.to("meta"), B), "^b: it is on cpu, a on meta"),
    ],
    ids=["dtype", "device"],
)
def test_no_error_names_a_result_that_the_call_makes(
    host: Context, operands: tuple[torch.Tensor, torch.Tensor], message: str
) -> None:
    plan = tilewright.plan(tilewright.gemm, A, B)
    with pytest.raises(ArgumentError, match=message):
        plan(*operands)


@pytest.mark.parametrize("action", [pickle.dumps, copy.deepcopy])
def test_a_plan_is_neither_pickled_nor_copied(host: Context, action: Callable[[Any], Any]) -> None:
    plan = tilewright.plan(tilewright.gemm, A, B)
    with pytest.raises(ArgumentTypeError, match=r"plan: it cannot be pickled.*\n.*tilewright\.plan"):
        action({"plan": plan})
    assert copy.copy(plan) is plan


def test_errors_of_planning(host: Context) -> None:
    with pytest.raises(ArgumentError, match="expected k of 32"):
        tilewright.plan(tilewright.gemm, A, B[:16])
    with pytest.raises(NotBuiltError):
        tilewright.plan(tilewright.gemm, A, B, activation="silu")
    with pytest.raises(NoKernelError):
        tilewright.plan(tilewright.gemm, A, B, tactic="no_such_kernel")
    for op in (torch.mm, len, None):
        with pytest.raises(ArgumentTypeError, match=r"op: expected an op .*tilewright\.gemm, got "):
            tilewright.plan(op, A, B)
    for op in (tilewright.einsum, tilewright.mixed_gemm, tilewright.plan):
        name = f"tilewright.{op.__name__}"
        wrong = f"op: {name} has no plan\nPlan an op. If {name} calls ops, help({name}) names them."
        with pytest.raises(ArgumentTypeError, match=re.escape(wrong)):
            tilewright.plan(op, A, B)
    for op, given, options, wrong in (
        (tilewright.gemm, (A,), {}, "tilewright.gemm: missing a required argument: 'b'"),
        (
            tilewright.gemm,
            (A, B),
            {"way": 1},
            "tilewright.gemm: got an unexpected keyword argument 'way'",
        ),
        (tilewright.gemm, (A, B, A), {}, "tilewright.gemm: too many positional arguments"),
        (tilewright.mm_nvfp4, (A, B), {}, "tilewright.mm_nvfp4: missing a required argument: 'a_descale'"),
    ):
        with pytest.raises(TypeError, match=re.escape(wrong)):
            tilewright.plan(op, *given, **options)


def test_a_plan_that_adds_wants_what_it_adds_to(host: Context) -> None:
    out = empty()
    plan = tilewright.plan(tilewright.gemm, A, B, out=out, c=out, beta=1.0)
    with pytest.raises(ArgumentError, match="out: it is None; the plan adds to it"):
        plan(A, B)
    first = tilewright.gemm(A, B)
    assert torch.equal(plan(A, B, first.clone()), tilewright.gemm(A, B, c=first, beta=1.0))
    assert torch.equal(plan(A, B, c=C), tilewright.gemm(A, B, c=C, beta=1.0))  # which is there to add to


@pytest.mark.parametrize(("a", "b"), [((5, 12), (12, 7)), ((16, 0), (0, 24))], ids=["padded", "no k"])
def test_plans_that_are_not_one_launch_check_types(
    host: Context, a: tuple[int, int], b: tuple[int, int]
) -> None:
    left, right = matrix(*a), matrix(*b)
    plan = tilewright.plan(tilewright.gemm, left, right)
    expected = plan(left, right)
    for dtype in (torch.float64, torch.int32):
        with pytest.raises(ArgumentError, match=f"out: it is .*{dtype} on cpu; the plan is for .*bfloat16"):
            plan(left, right, expected.to(dtype))
    with pytest.raises(ArgumentError, match=r"a: it is .*float16"):
        plan(left.half(), right)
