"""Prepared calls, with kernels that run on the host."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any

import blockscaled_operands as blockscaled
import pytest
import torch
from prepared_operands import BIAS, NAN, SCALE, A, B, C, empty, matrix

import tilewright
from tilewright.context import Context
from tilewright.errors import ArgumentError


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"bias": BIAS, "activation": "relu", "scale_a": SCALE, "scale_b": SCALE, "alpha": -2},
        {"c": C, "beta": 0.5},
        {"tactic": "host_bf16_tn_streamk@decomposition=split_k,splits=2"},
    ],
)
def test_equals_the_op(host: Context, options: dict[str, Any]) -> None:
    plan = tilewright.plan(tilewright.gemm, A, B, out=empty(), **options)
    for seed in range(3):
        a, b = matrix(16, 32, seed=seed), matrix(24, 32, seed=seed).t()
        expected = tilewright.gemm(a, b, **options)
        out = empty()
        assert plan(a, b, out) is out
        assert torch.equal(out, expected)
        assert torch.equal(plan(a, b), expected)
        assert torch.equal(plan(a=a, b=b), expected)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (matrix(5, 12), matrix(12, 7)),  # copied, with padding
        (matrix(0, 32), B),
        (matrix(16, 0), matrix(24, 0).t()),
        (matrix(3, 16, 32), matrix(24, 32).t()),
        (matrix(16, 3, 32).transpose(0, 1), matrix(24, 32).t()),
    ],
)
def test_other_plans(host: Context, a: torch.Tensor, b: torch.Tensor) -> None:
    plan = tilewright.plan(tilewright.gemm, a, b)
    expected = tilewright.gemm(a, b)
    actual = plan(a, b)
    assert torch.equal(actual, expected)
    assert torch.equal(plan(a, b, torch.full_like(expected, NAN)), expected)
    with pytest.raises(ArgumentError, match=r"^a: it is .*; the plan is for \["):
        plan(matrix(4, 32), b)


def test_other_operands_are_kept_or_replaced(host: Context) -> None:
    plan = tilewright.plan(tilewright.gemm, A, B, c=C, beta=1.0, bias=BIAS)
    assert torch.equal(plan(A, B), tilewright.gemm(A, B, c=C, beta=1.0, bias=BIAS))
    c, bias = matrix(16, 24, seed=5), matrix(24, seed=6)
    changes: list[dict[str, Any]] = [{"c": c}, {"bias": bias}, {"alpha": 3, "beta": -1.0}]
    for change in changes:
        expected = tilewright.gemm(A, B, **{"c": C, "beta": 1.0, "bias": BIAS, **change})
        out = empty()
        assert plan(A, B, out, **change) is out
        assert torch.equal(out, expected)
    assert torch.equal(plan(A, B), tilewright.gemm(A, B, c=C, beta=1.0, bias=BIAS))
    wrong: list[tuple[str, dict[str, Any]]] = [
        (r"bias: it is \[16\]", {"bias": bias[:16]}),
        ("bias: it is absent", {"bias": None}),
        (r"scale_a: it is \[1\].*; the plan is for absent", {"scale_a": SCALE}),
        ("activation: not an argument of a plan's call", {"activation": "relu"}),
        ("alpha: it is a str", {"alpha": "x"}),
        ("alpha: it is beyond the range of a float32", {"alpha": 1e39}),
        (r"c: it is .* of torch.float16 .*; the plan is for .* of torch.bfloat16", {"c": c.half()}),
        ("c: its dtype is torch.float64", {"c": c.double()}),
    ]
    for message, change in wrong:
        with pytest.raises(ArgumentError, match=message):
            plan(A, B, empty(), **change)


def test_accumulating_into_each_calls_own_out(host: Context) -> None:
    first = C.clone()
    plan = tilewright.plan(tilewright.gemm, A, B, out=first, c=first, beta=1.0)
    second = matrix(16, 24, seed=9)
    expected = tilewright.gemm(A, B, c=second, beta=1.0)
    plan(A, B, second)
    assert torch.equal(second, expected)
    assert torch.equal(first, C)
    assert torch.equal(plan(A, B, empty(), c=C), tilewright.gemm(A, B, c=C, beta=1.0))


def test_strides_of_single_rows_mean_nothing(host: Context) -> None:
    plan = tilewright.plan(tilewright.gemm, A[:1], B)
    odd = A[:1].as_strided((1, 32), (7, 1))
    assert torch.equal(plan(odd, B), tilewright.gemm(A[:1], B))


def test_gradients_of_what_is_kept(host: Context) -> None:
    bias = torch.nn.Parameter(BIAS.clone())
    with torch.no_grad():
        plan = tilewright.plan(tilewright.gemm, A, B, bias=bias)
        assert torch.equal(plan(A, B), tilewright.gemm(A, B, bias=BIAS))
    with pytest.raises(ArgumentError, match="bias: it requires a gradient"):
        plan(A, B)


def test_integer_factors(host: Context) -> None:
    a = torch.arange(-128, 128, dtype=torch.int8).view(8, 32)
    b = torch.arange(-128, 128, dtype=torch.int8).repeat(2).view(16, 32).t()
    plan = tilewright.plan(tilewright.gemm, a, b, alpha=2)
    assert torch.equal(plan(a, b, alpha=3), tilewright.gemm(a, b, alpha=3))
    with pytest.raises(ArgumentError, match=r"alpha: expected an integer .*, got 0\.5"):
        plan(a, b, alpha=0.5)


def test_holds_neither_operands_nor_results(host: Context) -> None:
    a, b, out = A.clone(), B.clone(), empty()
    plan = tilewright.plan(tilewright.gemm, a, b, out=out, c=out, beta=1.0)
    held = [weakref.ref(tensor) for tensor in (a, b, out)]
    before = len(host.plans)
    for _ in range(3):
        plan(a, b, out)
    del a, b, out
    gc.collect()
    assert [ref() for ref in held] == [None] * 3
    assert len(host.plans) == before  # a plan is its caller's


def test_threads(host: Context) -> None:
    plan = tilewright.plan(
        tilewright.gemm, A, B, tactic="host_bf16_tn_streamk@decomposition=split_k,splits=2"
    )
    inputs = [matrix(16, 32, seed=seed) for seed in range(4)]
    expected = [tilewright.gemm(a, B) for a in inputs]
    wrong: list[int] = []

    def work(index: int) -> None:
        for _ in range(200):
            if not torch.equal(plan(inputs[index], B, empty()), expected[index]):
                wrong.append(index)

    threads = [threading.Thread(target=work, args=(index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_says_what_it_is(host: Context) -> None:
    plan = tilewright.plan(tilewright.gemm, A, B, tactic="host_bf16_tn")
    assert repr(plan) == "<plan of tilewright.gemm: [16, 24] torch.bfloat16 on cpu, host_bf16_tn>"


@pytest.mark.parametrize(
    ("op", "formats"),
    [
        ("mm_nvfp4", ("nvfp4", "nvfp4")),
        ("mm_mxfp4", ("mxfp4", "mxfp4")),
        ("mm_mxfp8", ("mxfp8", "mxfp8")),
        ("mm_mxfp8_mxfp4", ("mxfp8", "mxfp4")),
    ],
)
@pytest.mark.parametrize("extents", [(16, 32, 128), (16, 32, 96), (5, 7, 40)])
def test_blockscaled(
    blackwell: Context, op: str, formats: tuple[str, str], extents: tuple[int, int, int]
) -> None:
    function = getattr(tilewright, op)
    m, n, k = extents
    (a, b, a_descale, b_descale), _ = blockscaled.product(m, n, k, *formats)
    plan = tilewright.plan(function, a, b, a_descale, b_descale)
    expected = function(a, b, a_descale, b_descale)
    assert torch.equal(plan(a, b), expected)
    out = empty(m, n)
    other, other_descale = blockscaled.operand(m, k, formats[0], seed=7)
    assert plan(other, b, out, a_descale=other_descale) is out
    assert torch.equal(out, function(other, b, other_descale, b_descale))
    alpha = torch.full((1,), 3.0)
    scaled = tilewright.plan(function, a, b, a_descale, b_descale, alpha)
    assert torch.equal(scaled(a, b), function(a, b, a_descale, b_descale, alpha))
    assert torch.equal(scaled(a, b, alpha=alpha + 1), function(a, b, a_descale, b_descale, alpha + 1))
    with pytest.raises(ArgumentError, match="a_descale"):
        plan(a, b, a_descale=a_descale.repeat(2, 1))


@pytest.mark.parametrize("passed", [False, True])
def test_quantised_results(blackwell: Context, passed: bool) -> None:
    call, _ = blockscaled.product(16, 32, 128, "mxfp8", "mxfp8")
    dtype = torch.float8_e4m3fn
    expected = tilewright.mm_mxfp8(*call, out_dtype=dtype)
    options = {"out_descale": expected[1].clone()} if passed else {}
    plan = tilewright.plan(tilewright.mm_mxfp8, *call, out_dtype=dtype, **options)
    first, second = plan(*call[:2]), plan(*call[:2])
    for actual in (first, second):
        for x, y in zip(actual, expected, strict=True):
            assert torch.equal(x.view(torch.uint8), y.view(torch.uint8))
    same = first[1].data_ptr() == second[1].data_ptr()
    assert same is passed
    with pytest.raises(ArgumentError, match="out_descale"):
        plan(*call[:2], first[0], out_descale=first[0].view(-1)[: expected[1].numel()].view(torch.uint8))


def test_planning_leaves_scale_factors_as_they_are(blackwell: Context) -> None:
    operands, _ = blockscaled.product(16, 64, 128, "nvfp4", "nvfp4")
    options: dict[str, Any] = {"out_dtype": torch.float4_e2m1fn_x2, "out_global_scale": torch.ones(1)}
    _, made = tilewright.mm_nvfp4(*operands, **options)
    out_descale = torch.full(made.shape, 7, dtype=torch.uint8)
    tilewright.plan(tilewright.mm_nvfp4, *operands, **options, out_descale=out_descale)
    assert bool((out_descale == 7).all())


def test_a_plan_that_adds_does_so_with_other_factors(host: Context) -> None:
    """Also where a call goes the slower way."""
    a, b, c = operands_of_a_product()
    plan = tilewright.plan(tilewright.gemm, a, b, out=c.clone(), c=c.clone(), beta=1.0)
    own = c.clone()
    adding = tilewright.plan(tilewright.gemm, a, b, out=own, c=own, beta=1.0)
    for factors in ({}, {"alpha": 2.0}, {"beta": -1.0}, {"alpha": 0.0}):
        expected = tilewright.gemm(a, b, c=c, **{"beta": 1.0, **factors})
        out = c.clone()
        assert torch.equal(adding(a, b, out, **factors), expected)
        assert torch.equal(plan(a, b, torch.zeros_like(c), **factors), expected)  # adds what it has kept
        other = tilewright.gemm(a, b, c=2 * c, **{"beta": 1.0, **factors})
        assert torch.equal(adding(a, b, c.clone(), c=2 * c, **factors), other)


def operands_of_a_product() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(5)
    a, b, c = (torch.randn(shape, generator=generator).bfloat16() for shape in ((16, 32), (24, 32), (16, 24)))
    return a, b.t(), c
