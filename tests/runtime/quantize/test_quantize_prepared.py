"""Prepared calls of the quantising ops, with kernels that run on the host."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import tilewright
from tilewright import blockwise_scales, reference
from tilewright.context import Context
from tilewright.contract.tensors import same
from tilewright.errors import ArgumentError, ArgumentTypeError

M, K = 40, 96
GS = 37.25


def matrix(*shape: int, seed: int = 0, dtype: Any = torch.bfloat16) -> Any:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator).to(dtype)


OPS: list[tuple[str, dict[str, Any]]] = [
    ("quantize_nvfp4", {"global_scale": GS}),
    ("quantize_nvfp4", {"layout": "8x4"}),
    ("quantize_mxfp4", {"layout": "linear"}),
    ("quantize_mxfp8", {}),
    ("quantize_mxfp8", {"dtype": torch.float8_e5m2}),
    ("quantize_fp8_blockwise", {}),
    ("quantize_fp8_blockwise", {"block": (128, 128)}),
    ("quantize_fp8_blockwise", {"scale_type": "ue8m0"}),
]


@pytest.mark.parametrize(("op", "options"), OPS)
@pytest.mark.parametrize("shape", [(M, K), (3, 17, 64)])
def test_equals_the_op(hopper: Context, op: str, options: dict[str, Any], shape: tuple[int, ...]) -> None:
    function, back = getattr(tilewright, op), getattr(tilewright, f"de{op}")
    plan = tilewright.plan(function, matrix(*shape), **options)
    for seed in range(3):
        x = matrix(*shape, seed=seed)
        expected = function(x, **options)
        assert same(plan(x), expected)
        out, scales = torch.zeros_like(expected[0]), torch.empty_like(expected[1])
        if expected[1].stride(-1) != 1 and op == "quantize_fp8_blockwise":
            scales = blockwise_scales.allocate(expected[1].shape, dtype=expected[1].dtype, device="cpu")
        actual = plan(x, out, out_scales=scales)
        assert actual[0] is out
        assert actual[1] is scales
        assert same(actual, expected)
    of_back = {name: options[name] for name in ("global_scale", "layout", "block") if name in options}
    reads = tilewright.plan(back, *expected, **of_back)
    exact = back(*expected, **of_back)
    assert same(reads(*expected), exact)
    made = torch.zeros_like(exact)
    assert reads(*expected, made) is made
    assert same(made, exact)


def test_global_scales_are_kept_or_replaced(hopper: Context) -> None:
    x = matrix(2, 40, 64)
    per_row, per_group = torch.rand(2, 40) * 100 + 1, torch.tensor([3.0, 50.0])
    double = torch.tensor(GS, dtype=torch.float64)
    for given in (None, GS, torch.tensor([GS]), double, per_row, per_group):
        plan = tilewright.plan(tilewright.quantize_nvfp4, x, given)
        assert same(plan(x), tilewright.quantize_nvfp4(x, given))
        if isinstance(given, torch.Tensor):  # read when a call runs, also where it is copied for that
            given.mul_(0.5)
            assert same(plan(x), tilewright.quantize_nvfp4(x, given))
    plan = tilewright.plan(tilewright.quantize_nvfp4, x, GS)
    for other in (2.5, torch.tensor([7.0]), torch.tensor(7.0, dtype=torch.float64)):
        assert same(plan(x, global_scale=other), tilewright.quantize_nvfp4(x, other))
    assert same(plan(x), tilewright.quantize_nvfp4(x, GS))
    for wrong in ("much", torch.ones(3), torch.ones(1, device="meta")):
        with pytest.raises(ArgumentError, match="global_scale: "):
            plan(x, global_scale=wrong)
    with pytest.raises(ArgumentError, match="global_scale: it is absent"):
        plan(x, global_scale=None)


def test_forms_of_a_global_scale_replace_each_other(hopper: Context) -> None:
    x = matrix(2, 40, 64)
    forms = [GS, torch.tensor(GS), torch.tensor([GS]), torch.tensor(GS, dtype=torch.float64)]
    for planned in forms:
        plan = tilewright.plan(tilewright.quantize_nvfp4, x, planned)
        for other in (7, torch.tensor(7.0), torch.tensor([[7.0]])):
            assert same(plan(x, global_scale=other), tilewright.quantize_nvfp4(x, 7.0))
    per_row, per_group = torch.rand(2, 40) * 100 + 1, torch.tensor([3.0, 50.0])
    for planned in (per_row, per_row.reshape(-1), per_row[..., None], per_group):
        plan = tilewright.plan(tilewright.quantize_nvfp4, x, planned)
        for other in (per_row + 1, (per_row + 1).reshape(-1), per_group + 1):
            assert same(plan(x, global_scale=other), tilewright.quantize_nvfp4(x, other))
        with pytest.raises(ArgumentError, match=r"global_scale: it is \[1\]"):
            plan(x, global_scale=2.0)


def test_gradients_that_nobody_computes(hopper: Context) -> None:
    x = matrix(128, 256)
    square: dict[str, Any] = {"block": (128, 128)}
    data, scales = tilewright.quantize_fp8_blockwise(x, **square)
    plan = tilewright.plan(tilewright.quantize_fp8_blockwise, x, **square)
    back = tilewright.plan(tilewright.dequantize_fp8_blockwise, data, scales, **square)
    with pytest.raises(ArgumentError, match="out_scales: it requires a gradient"):
        plan(x, out_scales=torch.zeros_like(scales).requires_grad_())
    with pytest.raises(ArgumentError, match=r"^scales: it requires a gradient"):
        back(data, scales.clone().requires_grad_())
    per_group = torch.tensor([3.0, 50.0]).requires_grad_()
    stack = matrix(2, 40, 64)
    with torch.no_grad():
        grouped = tilewright.plan(tilewright.quantize_nvfp4, stack, per_group)
        grouped(stack)
    with pytest.raises(ArgumentError, match="global_scale: it requires a gradient"):
        grouped(stack)


def test_rows_that_count(hopper: Context) -> None:
    x, valid = matrix(3, 40, 64), torch.tensor([40, 0, 17], dtype=torch.int32)
    plan = tilewright.plan(tilewright.quantize_nvfp4, x, GS, rows_valid=valid)
    for rows in (valid, torch.tensor([1, 2, 3], dtype=torch.int32)):
        out, scales = plan(x, torch.zeros(3, 40, 32, dtype=torch.uint8), rows_valid=rows)
        expected = reference.quantize(x, "nvfp4", GS, rows_valid=rows)
        counts = reference.valid_rows(rows, 40)
        assert torch.equal(out[counts], expected[0][counts])
        assert not out[~counts].any()
        assert same(scales, expected[1])


@pytest.mark.parametrize(
    "x", [matrix(K, M).t(), matrix(0, K), matrix(M, 2 * K)[:, ::2]], ids=["columns", "no rows", "strided"]
)
def test_other_plans(hopper: Context, x: Any) -> None:
    """Plans for operands that are copied, and for tensors without elements."""
    plan = tilewright.plan(tilewright.quantize_nvfp4, x, GS)
    expected = tilewright.quantize_nvfp4(x, GS)
    assert same(plan(x), expected)
    with pytest.raises(ArgumentError, match=r"^x: it is .*; the plan is for \["):
        plan(matrix(M + 1, K))
    back = tilewright.plan(tilewright.dequantize_nvfp4, *expected, GS)
    assert same(back(*expected), tilewright.dequantize_nvfp4(*expected, GS))


X = matrix(M, K)
DATA, SCALES = torch.zeros(M, K // 2, dtype=torch.uint8), torch.zeros(128, 8, dtype=torch.uint8)
WRONG: list[tuple[type[ArgumentError], str, dict[str, Any]]] = [
    (ArgumentError, r"x: it is \[39, 96\]", {"x": X[:39]}),
    (ArgumentError, r"x: it is \[40, 96\] with strides \(192, 1\)", {"x": matrix(M, 2 * K)[:, :K]}),
    (ArgumentError, r"x: it is .*float32 on cpu; the plan is for .*bfloat16", {"x": X.float()}),
    (ArgumentError, r"out: it is \[40, 96\]", {"out": torch.zeros(M, K, dtype=torch.uint8)}),
    (ArgumentError, "out: ", {"out": torch.zeros(M, K // 2, dtype=torch.int8)}),
    (
        ArgumentError,
        "out: it overlaps x",
        {"out": X.view(torch.uint8).flatten()[: DATA.numel()].view(DATA.shape)},
    ),
    (
        ArgumentError,
        r"out_scales: its shape is \[40, 6\]",
        {"out_scales": torch.zeros(M, 6, dtype=torch.uint8)},
    ),
    (
        ArgumentError,
        "layout: not an argument of a plan's call; expected one of x, out, out_scales, ",
        {"layout": "8x4"},
    ),
]


@pytest.mark.parametrize(("error", "message", "change"), WRONG, ids=[wrong[1] for wrong in WRONG])
def test_wrong_operands(
    hopper: Context, error: type[ArgumentError], message: str, change: dict[str, Any]
) -> None:
    plan = tilewright.plan(tilewright.quantize_nvfp4, X, GS)
    with pytest.raises(error, match=message):
        plan(**{"x": X, "out": DATA.clone(), "out_scales": SCALES.clone(), **change})
    assert same(plan(X), tilewright.quantize_nvfp4(X, GS))


def test_scales_without_room_for_their_padding(hopper: Context) -> None:
    x = matrix(41, 256)
    plan = tilewright.plan(tilewright.quantize_fp8_blockwise, x)
    short = torch.empty(2 * 44 - 3).as_strided((41, 2), (1, 44))
    wrong: list[tuple[Any, str]] = [
        (short, "storage|memory"), ([1.0], "it is a list"), (torch.zeros(3), r"its shape is \[3\]"),
        (torch.zeros(41, 3), r"its shape is \[41, 3\]"), (torch.zeros(41, 2), "strides"),
    ]  # fmt: skip
    for scales, said in wrong:
        with pytest.raises(ArgumentError, match=f"^out_scales: .*({said})"):
            plan(x, out_scales=scales)
        with pytest.raises(ArgumentError, match=r"^out_scales: "):
            plan(x, out_scales=scales, eps=1e-5)


def test_what_an_op_has_not_is_not_replaced(hopper: Context) -> None:
    plan = tilewright.plan(tilewright.quantize_mxfp4, X)
    with pytest.raises(ArgumentTypeError, match="global_scale: not an argument of a plan's call"):
        plan(X, global_scale=1.0)
    back = tilewright.plan(tilewright.dequantize_mxfp4, *plan(X))
    for name in ("eps", "rms_weight"):
        with pytest.raises(
            ArgumentTypeError, match=f"{name}: not an argument of a plan.s call; expected one of data, scales"
        ):
            back(*plan(X), **{name: 1.0})


def test_says_what_it_is(hopper: Context) -> None:
    plan = tilewright.plan(tilewright.quantize_nvfp4, X, GS)
    assert repr(plan).startswith("<plan of tilewright.quantize_nvfp4: [40, 48] torch.uint8 on cpu, host_")
