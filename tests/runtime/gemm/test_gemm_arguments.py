"""Arguments that `gemm` refuses, and empty products."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gemm_operands import A, B, column_major, expected, matrix

import tilewright
from tilewright.context import Context
from tilewright.errors import ArgumentError, ArgumentTypeError


@pytest.mark.parametrize("shape", [(0, 8, 8), (8, 0, 8), (0, 0, 0)])
def test_results_without_elements_are_returned_empty(host: Context, shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    d = tilewright.gemm(matrix(m, k), matrix(k, n))
    assert d.shape == (m, n)
    assert d.dtype == torch.bfloat16
    assert tilewright.gemm(matrix(0, m, k), matrix(k, n)).shape == (0, m, n)


@pytest.mark.parametrize("activation", ["none", "relu", "gelu", "silu"])
def test_without_k_the_result_is_beta_c_and_the_bias(host: Context, activation: str) -> None:
    a, b, c, bias = matrix(5, 0), matrix(0, 7), matrix(5, 7), matrix(7)
    assert tilewright.gemm(a, b).eq(0).all()
    out = torch.full((5, 7), float("nan"), dtype=torch.bfloat16)
    tilewright.gemm(a, b, out=out, c=c, beta=2.0, bias=bias, activation=activation)
    functions = {"none": lambda x: x, "gelu": torch.nn.functional.gelu, "silu": torch.nn.functional.silu}
    functions["relu"] = torch.relu
    reference = functions[activation](2.0 * c.double() + bias.double())
    torch.testing.assert_close(out, reference.bfloat16())
    assert (
        tilewright.gemm(matrix(5, 0, dtype=torch.int8), matrix(0, 7, dtype=torch.int8)).dtype == torch.int32
    )


WRONG: list[tuple[str, type[ArgumentError], str, dict[str, Any]]] = [
    ("a", ArgumentTypeError, "its dtype is torch.float64", {"a": A.double()}),
    ("b", ArgumentTypeError, "a is torch.bfloat16 and b is torch.float16", {"b": B.half()}),
    ("a", ArgumentError, r"its shape is \[16\]", {"a": A[:, 0]}),
    ("b", ArgumentError, r"its shape is \[31, 24\], k of 31, and a's \[16, 32\], k of 32", {"b": B[:31]}),
    # A byte of whose rows is none that TMA's coordinates could name.
    (
        "a",
        ArgumentError,
        r"\[1, 1073741825\]; expected at most 1073741824",
        {"a": A[:1, :1].expand(1, 2**30 + 1), "b": B[:1, :1].expand(2**30 + 1, 1)},
    ),
    (
        "b",
        ArgumentError,
        "batch of 3, and a's .*, batch of 2",
        {"a": matrix(2, 16, 32), "b": matrix(3, 32, 24)},
    ),
    ("out", ArgumentError, r"its shape is \[16, 16\]; expected \[16, 24\]", {"out": matrix(16, 16)}),
    ("out", ArgumentTypeError, "its dtype is torch.float16", {"out": matrix(16, 24).half()}),
    ("out", ArgumentError, "contiguous rows", {"out": matrix(24, 16).t()}),
    ("out", ArgumentError, "elements of it overlap", {"out": matrix(1, 24).expand(16, 24)}),
    ("out", ArgumentError, "overlaps a", {"a": A, "b": A.t(), "out": A[:, :16]}),
    ("out_dtype", ArgumentTypeError, "it is torch.int32", {"out_dtype": torch.int32}),
    ("out", ArgumentTypeError, "expected float32", {"out": matrix(16, 24), "out_dtype": torch.float32}),
    ("a", ArgumentTypeError, "it is an int; expected a torch.Tensor", {"a": 3}),
    ("beta", ArgumentTypeError, "it is a ndarray; expected a number", {"beta": np.zeros(1)}),
    (
        "fast_accum",
        ArgumentTypeError,
        "it is a ndarray; expected True or False",
        {"fast_accum": np.array(False)},
    ),
    (
        "bias",
        ArgumentError,
        r"its strides are \(2,\); expected a contiguous \[24\]",
        {"bias": matrix(48)[::2]},
    ),
    ("c", ArgumentError, "pass c=out", {"beta": 1.0}),
    (
        "c",
        ArgumentTypeError,
        "its dtype is torch.float64; expected one of bfloat16, float16, float32",
        {"beta": 1.0, "c": matrix(16, 24).double()},
    ),
    ("c", ArgumentError, "its shape", {"beta": 1.0, "c": matrix(24, 16)}),
    ("bias", ArgumentError, r"its shape is \[16\]; expected \[24\]", {"bias": matrix(16)}),
    (
        "bias",
        ArgumentTypeError,
        "its dtype is torch.int32; expected one of bfloat16, float16, float32",
        {"bias": matrix(24).int()},
    ),
    (
        "scale_result",
        ArgumentError,
        "expected a result of FP8 beside it, got torch.bfloat16",
        {"scale_result": torch.ones(1)},
    ),
    (
        "amax",
        ArgumentError,
        "expected a result of FP8 beside it, got torch.bfloat16",
        {"amax": torch.ones(1)},
    ),
    ("scale_a", ArgumentError, "one number", {"scale_a": torch.ones(2)}),
    ("scale_a", ArgumentTypeError, "float64; expected float32", {"scale_a": torch.ones(1).double()}),
    ("activation", ArgumentError, "'tanh'; expected one of none, relu", {"activation": "tanh"}),
    ("tactic", ArgumentError, "its layout is nt", {"tactic": "host_bf16_nt"}),
    ("tactic", ArgumentError, "only stream-K", {"tactic": "host_bf16_tn@decomposition=split_k,splits=2"}),
    ("tactic", ArgumentError, "'colour=red' is not NAME=VALUE", {"tactic": "host_bf16_tn@colour=red"}),
    ("tactic", ArgumentError, "splits is given twice", {"tactic": "host_bf16_tn@splits=2,splits=3"}),
    ("tactic", ArgumentTypeError, "expected a Tactic or its name, got int", {"tactic": 3}),
]


@pytest.mark.parametrize(
    ("argument", "error", "message", "change"), WRONG, ids=[f"{w[0]}-{w[2]}" for w in WRONG]
)
def test_a_wrong_argument_is_named_after_a_right_call_too(
    host: Context, argument: str, error: type[ArgumentError], message: str, change: dict[str, Any]
) -> None:
    tilewright.gemm(A, B)  # a plan for the right ones is remembered
    call = {"a": A, "b": B, **change}
    with pytest.raises(error, match=message) as caught:
        tilewright.gemm(call.pop("a"), call.pop("b"), **call)
    assert caught.value.argument == argument
    assert isinstance(caught.value, ValueError)


def test_int8_products_take_integer_factors_alone(host: Context) -> None:
    a, b = matrix(16, 32, dtype=torch.int8), column_major(matrix(32, 16, dtype=torch.int8))
    assert torch.equal(tilewright.gemm(a, b, alpha=3), 3 * expected(a, b, torch.int32))
    with pytest.raises(ArgumentError, match=r"alpha: .*, got 0\.5"):
        tilewright.gemm(a, b, alpha=0.5)
    with pytest.raises(ArgumentError, match="use alpha"):
        tilewright.gemm(a, b, scale_a=torch.ones(1))
    with pytest.raises(ArgumentError, match=r"activation: it is 'gelu'; expected one of none, relu"):
        tilewright.gemm(a[:, :0], b[:0], activation="gelu")


@pytest.mark.parametrize("k", [0, 32])
@pytest.mark.parametrize("dtype", [torch.int8, torch.float32])
@pytest.mark.parametrize("remembered", [False, True])
def test_factors_that_are_no_numbers(host: Context, dtype: torch.dtype, k: int, remembered: bool) -> None:
    a, b = matrix(16, k, dtype=dtype), column_major(matrix(k, 16, dtype=dtype))
    c = matrix(16, 16).int() if dtype == torch.int8 else matrix(16, 16).float()
    bad: list[Any] = ["x", None, torch.ones(()), 1j]
    if dtype == torch.int8:
        bad += [float("nan"), float("inf"), 2.0**25]
    for value in bad:
        for name in ("alpha", "beta"):
            if name == "beta" and value is None:
                continue  # 1, with c
            host.plans.clear()
            if remembered:
                tilewright.gemm(a, b, c=c, beta=1)
            with pytest.raises(ArgumentError) as caught:
                tilewright.gemm(a, b, c=c, **{"beta": 1, name: value})
            assert caught.value.argument == name
