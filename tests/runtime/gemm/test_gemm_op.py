"""`tilewright.gemm` end to end, with kernels that run on the host in place of a GPU's."""

from __future__ import annotations

import itertools
import logging
import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

import tilewright
from tilewright import context as contexts
from tilewright.calls import memory
from tilewright.context import Context
from tilewright.errors import (
    AlignmentError,
    ArgumentError,
    ArgumentTypeError,
    NoKernelError,
    NotBuiltError,
    WrongResultError,
)
from tilewright.families.gemm import measuring
from tilewright.families.gemm.problem import Problem

ODD = [(1, 8, 16), (31, 256, 256), (127, 129, 136), (10, 10, 10), (40, 264, 72), (5, 7, 3), (16, 1, 1)]


def matrix(*shape: int, dtype: torch.dtype = torch.bfloat16, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed + sum(shape))
    if dtype == torch.int8:
        return torch.randint(-8, 8, shape, generator=generator, dtype=dtype)
    return torch.randn(shape, generator=generator).to(dtype)


def column_major(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.mT.contiguous().mT


def expected(a: torch.Tensor, b: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    return (a.double() @ b.double()).to(dtype)


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
    wanted = torch.relu(3.0 * (a.double() @ b.double()) - 1.5 * c.double() + bias.double())
    torch.testing.assert_close(out, wanted.bfloat16())


@pytest.mark.parametrize("dtype", [torch.float32, torch.int8])
def test_other_types(host: Context, dtype: torch.dtype) -> None:
    a, b = matrix(32, 64, dtype=dtype), column_major(matrix(64, 48, dtype=dtype, seed=1))
    d = tilewright.gemm(a, b)
    assert d.dtype == (torch.int32 if dtype == torch.int8 else torch.float32)
    torch.testing.assert_close(d, expected(a, b, d.dtype))


def test_float32_in_any_layout(host: Context) -> None:
    a, b = column_major(matrix(9, 13, dtype=torch.float32)), matrix(13, 5, dtype=torch.float32, seed=1)
    torch.testing.assert_close(tilewright.gemm(a, b), expected(a, b, torch.float32))


@pytest.mark.parametrize("k", [16, 12])
@pytest.mark.parametrize("broadcast", ["none", "a", "b", "expanded"])
def test_batches(host: Context, k: int, broadcast: str) -> None:
    a = matrix(24, k) if broadcast == "a" else matrix(3, 24, k)
    b = column_major(matrix(k, 40) if broadcast == "b" else matrix(3, k, 40))
    if broadcast == "expanded":
        b = b[:1].expand(3, k, 40)
    c = matrix(24, 40, seed=5)
    d = tilewright.gemm(a, b, c=c, beta=1.0)
    wanted = torch.matmul(a.double(), b.double()) + c.double()
    torch.testing.assert_close(d, wanted.bfloat16())


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
        wanted = a.double() @ b.double() + call["c"].double() + call["bias"].double()
        torch.testing.assert_close(d, wanted.bfloat16())


def test_in_place_accumulation(host: Context) -> None:
    a, b = matrix(16, 32), column_major(matrix(32, 24))
    out = matrix(16, 24, seed=7)
    wanted = (a.double() @ b.double() + out.double()).bfloat16()
    tilewright.gemm(a, b, c=out, out=out, beta=1.0)
    torch.testing.assert_close(out, wanted)


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
        wanted = expected(a, b, torch.bfloat16)
        tilewright.gemm(a, b, out=out)
        torch.testing.assert_close(out, wanted)
    # In a batch, and between the columns of each row.
    buffer = matrix(16, 3, k + n)
    a, out = buffer[..., :k].transpose(0, 1), buffer[..., k:].transpose(0, 1)
    wanted = torch.matmul(a.double(), b.double()).bfloat16()
    tilewright.gemm(a, b, out=out)
    torch.testing.assert_close(out, wanted)
    c, bias, out = interleaved(16, n, n, n)
    wanted = (a[0].double() @ b.double() + c.double() + bias[0].double()).bfloat16()
    tilewright.gemm(a[0], b, c=c, beta=1.0, bias=bias[0], out=out)
    torch.testing.assert_close(out, wanted)


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


@pytest.mark.parametrize("shape", [(0, 8, 8), (8, 0, 8), (0, 0, 0)])
def test_empty_results(host: Context, shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    d = tilewright.gemm(matrix(m, k), matrix(k, n))
    assert d.shape == (m, n)
    assert d.dtype == torch.bfloat16
    assert tilewright.gemm(matrix(0, m, k), matrix(k, n)).shape == (0, m, n)


@pytest.mark.parametrize("activation", ["none", "relu", "gelu", "silu"])
def test_no_k(host: Context, activation: str) -> None:
    a, b, c, bias = matrix(5, 0), matrix(0, 7), matrix(5, 7), matrix(7)
    assert tilewright.gemm(a, b).eq(0).all()
    out = torch.full((5, 7), float("nan"), dtype=torch.bfloat16)
    tilewright.gemm(a, b, out=out, c=c, beta=2.0, bias=bias, activation=activation)
    functions = {"none": lambda x: x, "gelu": torch.nn.functional.gelu, "silu": torch.nn.functional.silu}
    functions["relu"] = torch.relu
    wanted = functions[activation](2.0 * c.double() + bias.double())
    torch.testing.assert_close(out, wanted.bfloat16())
    assert (
        tilewright.gemm(matrix(5, 0, dtype=torch.int8), matrix(0, 7, dtype=torch.int8)).dtype == torch.int32
    )


A, B = matrix(16, 32), matrix(24, 32).t()
WRONG: list[tuple[str, type[ArgumentError], str, dict[str, Any]]] = [
    ("a", ArgumentTypeError, "its dtype is torch.float64", {"a": A.double()}),
    ("b", ArgumentTypeError, "a is torch.bfloat16 and b is torch.float16", {"b": B.half()}),
    ("a", ArgumentError, r"its shape is \[16\]", {"a": A[:, 0]}),
    ("b", ArgumentError, r"its shape is \[31, 24\], k of 31, and a's \[16, 32\], k of 32", {"b": B[:31]}),
    # A byte of whose rows is none that TMA's coordinates could name.
    (
        "a",
        ArgumentError,
        r"\[1, 1073741825\]; at most 1073741824",
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
        "its dtype is torch.float64; expected bfloat16",
        {"beta": 1.0, "c": matrix(16, 24).double()},
    ),
    ("c", ArgumentError, "its shape", {"beta": 1.0, "c": matrix(24, 16)}),
    ("bias", ArgumentError, r"its shape is \[16\]; expected \[24\]", {"bias": matrix(16)}),
    (
        "bias",
        ArgumentTypeError,
        "expected bfloat16, float16, float32, got torch.int32",
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
    ("tactic", ArgumentTypeError, "expected a Tactic or its name, got int", {"tactic": 3}),
]


@pytest.mark.parametrize(
    ("argument", "error", "message", "change"), WRONG, ids=[f"{w[0]}-{w[2]}" for w in WRONG]
)
def test_wrong_arguments(
    host: Context, argument: str, error: type[ArgumentError], message: str, change: dict[str, Any]
) -> None:
    tilewright.gemm(A, B)  # a plan for the right ones is remembered
    call = {"a": A, "b": B, **change}
    with pytest.raises(error, match=message) as caught:
        tilewright.gemm(call.pop("a"), call.pop("b"), **call)
    assert caught.value.argument == argument
    assert isinstance(caught.value, ValueError)


def test_integer_factors(host: Context) -> None:
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


class Unkeyable(str):
    """An activation that equals another and has no hash."""

    __hash__ = None  # type: ignore[assignment]


def test_calls_without_a_key_are_not_remembered(host: Context) -> None:
    def shifted(tensor: torch.Tensor) -> torch.Tensor:
        return torch.empty(tensor.numel() + 1, dtype=tensor.dtype)[1:].view(tensor.shape).copy_(tensor)

    for m in (16, 24, 16):
        a = matrix(m, 32)
        d = tilewright.gemm(shifted(a), B, activation=Unkeyable("none"))
        torch.testing.assert_close(d, expected(a, B, torch.bfloat16))
        # The copies of `a` are what the inner call remembers, and nothing else.
        assert all(key[0] == "gemm" and key[1] is not None for key in host.plans)
    wanted = torch.relu(A.double() @ B.double()).bfloat16()
    torch.testing.assert_close(tilewright.gemm(A, B, activation=Unkeyable("relu")), wanted)


@pytest.mark.parametrize("shape", [(0, 24, 32), (16, 24, 0)])
def test_a_tactic_for_nothing_is_judged(host: Context, shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    a, b = matrix(m, k), matrix(k, n)
    assert tilewright.gemm(a, b, tactic="host_bf16_nt").shape == (m, n)
    with pytest.raises(NoKernelError, match="host_bf16_tm"):
        tilewright.gemm(a, b, tactic="host_bf16_tm")
    with pytest.raises(ArgumentError, match="its a is s8"):
        tilewright.gemm(a, b, tactic="host_s8_tn")
    with pytest.raises(ArgumentError, match="only stream-K"):
        tilewright.gemm(a, b, tactic="host_bf16_tn@decomposition=split_k,splits=2")


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


def fp8(*shape: int, seed: int = 0) -> torch.Tensor:
    return matrix(*shape, dtype=torch.float32, seed=seed).to(torch.float8_e4m3fn)


def within(shape: tuple[int, int], dtype: torch.dtype, unit: int = 16) -> torch.Tensor:
    """A matrix whose rows begin at multiples of so many elements, in memory that nothing has written."""
    wide = torch.full((shape[0] + 1, -(-shape[1] // unit) * unit + unit), float("nan")).to(dtype)
    return wide[: shape[0], : shape[1]]


@pytest.mark.parametrize("shape", [(5, 7, 3), (32, 18, 24), (16, 1, 1), (40, 264, 72)])
@pytest.mark.parametrize("results", ["made", "within", "odd_address"])
def test_fp8_of_any_extents_is_not_copied(
    host: Context, shape: tuple[int, int, int], results: str, caplog: pytest.LogCaptureFixture
) -> None:
    """What TMA reads are rows at multiples of 16 bytes, however long; what it does not store, threads do."""
    m, n, k = shape
    a, b = fp8(m, k), fp8(n, k, seed=1)
    left, right = within((m, k), a.dtype).copy_(a), within((n, k), b.dtype).copy_(b).t()
    wanted = expected(a, b.t(), torch.bfloat16)
    out = {
        "made": None,
        "within": within((m, n), torch.bfloat16),
        "odd_address": torch.empty(m * n + 1, dtype=torch.bfloat16)[1:].view(m, n),
    }[results]
    with caplog.at_level(logging.WARNING, "tilewright"):
        actual = tilewright.gemm(left, right, out=out)
    torch.testing.assert_close(actual, wanted)
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


def test_fp8_results(host: Context) -> None:
    """Scaled, saturated, with the largest magnitude before that."""
    a, b = fp8(16, 32), fp8(24, 32, seed=1).t()
    scale, amax = torch.tensor(50.0), torch.tensor([3.0])
    actual = tilewright.gemm(a, b, out_dtype=torch.float8_e4m3fn, scale_result=scale, amax=amax)
    exact = a.double() @ b.double()
    assert float(amax) == pytest.approx(float(exact.abs().max()), rel=1e-6)
    assert float(amax) * 50 > 448, "nothing saturates"
    wanted = (exact * 50).clamp(-448, 448).to(torch.float8_e4m3fn)
    torch.testing.assert_close(actual.float(), wanted.float(), rtol=0, atol=0)
    amax.fill_(1e6)
    tilewright.gemm(a, b, out=actual, scale_result=scale, amax=amax)
    assert float(amax) == 1e6, "it is raised, never lowered"


def test_c_and_bias_of_other_types(host: Context) -> None:
    a, b = fp8(16, 32), fp8(24, 32, seed=1).t()
    c, bias = matrix(16, 24, dtype=torch.float32, seed=2), matrix(24, dtype=torch.float32, seed=3)
    for dtype in (torch.bfloat16, torch.float8_e4m3fn):
        for c_dtype, bias_dtype in itertools.product((torch.float32, torch.bfloat16), repeat=2):
            one, other = c.to(c_dtype), bias.to(bias_dtype)
            actual = tilewright.gemm(a, b, out_dtype=dtype, c=one, beta=-0.5, bias=other)
            wanted = a.double() @ b.double() - 0.5 * one.double() + other.double()
            torch.testing.assert_close(actual.float(), wanted.to(dtype).float(), rtol=0, atol=0)
    with pytest.raises(ArgumentTypeError, match="float8_e4m3fn; expected bfloat16"):
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
    wanted = (bias.float() * 1000).clamp(-448, 448).to(torch.float8_e4m3fn).float().expand(16, 24)
    torch.testing.assert_close(actual.float(), wanted, rtol=0, atol=0)
    assert float(amax) == float(bias.abs().max())


def test_a_kernel_that_is_not_built(host: Context) -> None:
    with pytest.raises(NotBuiltError, match="tilewright build --filter host_absent"):
        tilewright.gemm(A, B, activation="silu")


def test_no_kernel_says_why(host: Context) -> None:
    with pytest.raises(NoKernelError, match=r"no gemm kernel computes gemm 16x24x32 bf16 x bf16 -> f32"):
        tilewright.gemm(A, B, out_dtype=torch.float32)


def test_a_demanded_tactic_runs(host: Context) -> None:
    wanted = expected(A, B, torch.bfloat16)
    split = "host_bf16_tn_streamk@decomposition=split_k,splits=2"
    torch.testing.assert_close(tilewright.gemm(A, B, tactic="host_bf16_tn"), wanted)
    torch.testing.assert_close(tilewright.gemm(A, B, tactic=split), wanted)
    with pytest.raises(NoKernelError, match=r"Did you mean .*host_bf16_tn"):
        tilewright.gemm(A, B, tactic="host_bf16_tm")


def test_plans_are_remembered_and_bounded(host: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contexts, "MAX_PLANS", 5)
    for m in range(1, 20):
        tilewright.gemm(matrix(m, 32), B)
        tilewright.gemm(matrix(m, 32), B)
    assert len(host.plans) == 5
    assert all(key[0] == "gemm" for key in host.plans)


@pytest.mark.parametrize("k", [256, 16384])
@pytest.mark.parametrize("fast_accum", [False, True])
def test_a_measurement_sees_a_wrong_alpha(k: int, fast_accum: bool) -> None:
    problem = Problem(16, 64, k, a="e4m3", b="e4m3", fast_accum=fast_accum)
    a, b = matrix(16, k).to(torch.float8_e4m3fn), matrix(64, k).to(torch.float8_e4m3fn).t()
    d = (a.double() @ b.double()).bfloat16()
    assert measuring.operands(problem, a=a, b=b, out=d).check() < 4e-3
    for wrong in (1.02, 0.98, float("nan")):
        with pytest.raises(WrongResultError, match="norm ratio"):
            measuring.operands(problem, a=a, b=b, out=wrong * d).check()


def test_plans_in_use_outlive_others(host: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contexts, "MAX_PLANS", 5)
    tilewright.gemm(A, B)
    (used,) = host.plans.values()
    for m in range(1, 20):
        tilewright.gemm(A, B)
        tilewright.gemm(matrix(m, 40), matrix(8, 40).t())
    assert used.cached in host.plans.launchers.values(), "its calls look for no plan any more"
    for m in range(1, 20):
        tilewright.gemm(matrix(m, 48), matrix(8, 48).t())
    assert used not in host.plans.values()
