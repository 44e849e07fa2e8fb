"""What the block-scaled ops refuse, and what they say of it."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from blockscaled_operands import operand, product

import tilewright
from tilewright.context import Context
from tilewright.errors import ArgumentError, ArgumentTypeError

CALL, EXACT = product(16, 32, 64)
A, B, A_SCALES, B_SCALES = CALL
E4M3 = torch.float8_e4m3fn
QUANTISED = {"out_dtype": torch.float4_e2m1fn_x2, "out_global_scale": torch.ones(1)}


def scales(*shape: int, dtype: torch.dtype = E4M3) -> torch.Tensor:
    return torch.zeros(shape, dtype=torch.uint8).view(dtype)


WRONG: list[tuple[str, type[ArgumentError], str, dict[str, Any]]] = [
    ("a", ArgumentTypeError, "bfloat16; expected one of float4_e2m1fn_x2, uint8", {"a": A.bfloat16()}),
    ("b", ArgumentTypeError, "its dtype is torch.float8_e4m3fn", {"b": B.view(E4M3)}),
    ("a", ArgumentError, r"its shape is \[16\]; expected two dimensions", {"a": A[:, 0]}),
    ("b", ArgumentError, r"\[30, 32\], k of 60, and a's \[16, 32\], k of 64", {"b": B[:30]}),
    ("a", ArgumentError, r"strides are \(1, 16\); expected contiguous rows", {"a": A.mT.contiguous().mT}),
    ("b", ArgumentError, "the transpose of a row-major", {"b": B.contiguous()}),
    ("a", ArgumentError, r"its k is 2147483648; expected at most 1073741824",
     {"a": A[:1, :1].expand(1, 2**30), "b": B[:1, :1].expand(2**30, 1)}),
    ("b", ArgumentError, "batch of 2, and a's .* batch of 3",
     {"a": A.expand(3, 16, 32), "b": B.expand(2, 32, 32), "a_descale": scales(3, 128, 4)}),
    ("a_descale", ArgumentTypeError, "it is None; expected a torch.Tensor", {"a_descale": None}),
    ("a_descale", ArgumentError, r"\[16, 4\]; expected 512 elements, as of \[128, 4\]",
     {"a_descale": scales(16, 4)}),
    ("b_descale", ArgumentError, r"\[256, 4\]; expected 512 elements", {"b_descale": scales(256, 4)}),
    ("a_descale", ArgumentError, r"\[128, 8\]; expected 512 elements", {"a_descale": scales(128, 8)}),
    ("a_descale", ArgumentTypeError, "torch.float8_e8m0fnu; expected float8_e4m3fn, uint8",
     {"a_descale": scales(128, 4, dtype=torch.float8_e8m0fnu)}),
    ("b_descale", ArgumentError, "contiguous", {"b_descale": scales(4, 128).view(torch.uint8).t()}),
    ("alpha", ArgumentTypeError, "torch.float64; expected float32", {"alpha": torch.ones(()).double()}),
    ("alpha", ArgumentError, r"its shape is \[2\]; expected one number", {"alpha": torch.ones(2)}),
    ("c", ArgumentError, "pass c=out", {"beta": 1.0}),
    ("c", ArgumentTypeError, "torch.float32; expected bfloat16", {"c": torch.zeros(16, 32), "beta": 1.0}),
    ("c", ArgumentError, r"its shape is \[32, 16\]; expected \[16, 32\]",
     {"c": torch.zeros(32, 16).bfloat16(), "beta": 1.0}),
    ("out_dtype", ArgumentTypeError, "it is torch.int8; expected one of bfloat16", {"out_dtype": torch.int8}),
    ("out_dtype", ArgumentTypeError, "it is None", {"out_dtype": None}),
    ("out", ArgumentTypeError, "torch.float16; expected bfloat16", {"out": A.half()}),
    ("out", ArgumentError, r"is \[16, 16\]; expected \[16, 32\]", {"out": torch.zeros(16, 16).bfloat16()}),
    ("out", ArgumentError, "contiguous rows", {"out": torch.zeros(32, 16).bfloat16().t()}),
    ("out", ArgumentError, "elements of it overlap", {"out": torch.zeros(1, 32).bfloat16().expand(16, 32)}),
    ("out", ArgumentError, r"its shape is \[16, 32\]; expected \[16, 16\]",
     QUANTISED | {"out": torch.zeros(16, 32, dtype=torch.uint8)}),
    ("out_dtype", ArgumentError, "two elements in a byte of .*, got 31",
     QUANTISED | {"b": B[:, :31]}),
    ("out_descale", ArgumentError, "expected an out_dtype of", {"out_descale": scales(128, 4)}),
    ("out_global_scale", ArgumentError, "expected an out_dtype of", {"out_global_scale": torch.ones(1)}),
    ("out_global_scale", ArgumentError, "NVFP4; got None", {"out_dtype": torch.float4_e2m1fn_x2}),
    ("out_global_scale", ArgumentError, "one number", QUANTISED | {"out_global_scale": torch.ones(2)}),
    ("out_descale", ArgumentError, r"\[16, 2\]; expected 512 el", QUANTISED | {"out_descale": scales(16, 2)}),
    ("out_descale", ArgumentError, "it overlaps a_descale", QUANTISED | {"out_descale": A_SCALES}),
    ("bias", ArgumentError, "result without scale factors", QUANTISED | {"bias": torch.ones(32).bfloat16()}),
    ("activation", ArgumentError, "it is 'relu'; expected one of none", QUANTISED | {"activation": "relu"}),
    ("bias", ArgumentTypeError, "expected bfloat16", {"bias": torch.ones(32)}),
    ("bias", ArgumentError, r"expected \[32\]", {"bias": torch.ones(31).bfloat16()}),
    ("activation", ArgumentError, "swish", {"activation": "swish"}),
    ("tactic", ArgumentError, "it adds no bias",
     {"tactic": "host_nvfp4", "bias": torch.ones(32).bfloat16()}),
    ("tactic", ArgumentError, "it applies no silu", {"tactic": "host_nvfp4", "activation": "silu"}),
    ("tactic", ArgumentError, "its a is mxfp8, not nvfp4", {"tactic": "host_mxfp8"}),
    ("tactic", ArgumentError, "gemm kernel; expected a blockscaled_gemm kernel", {"tactic": "host_bf16_tn"}),
    ("tactic", ArgumentError, "only stream-K kernels split k", {"tactic": "host_nvfp4@splits=2"}),
    ("tactic", ArgumentError, "is 1x1, compiled in", {"tactic": "host_nvfp4_streamk@cluster=2x1"}),
    ("tactic", ArgumentError, "cluster 1x2 is not made of its 2x1", {"tactic": "host_nvfp4_2sm@cluster=1x2"}),
    ("tactic", ArgumentError, "no cluster to fall back from", {"tactic": "host_nvfp4@fallback=1x1"}),
    ("tactic", ArgumentError, "side of more than 4", {"tactic": "host_nvfp4@cluster=8x1"}),
    ("tactic", ArgumentError, "'3by4'; expected MxN", {"tactic": "host_nvfp4@cluster=3by4"}),
    ("tactic", ArgumentError, "at most 16 thread blocks", {"tactic": "host_nvfp4@cluster=8x4"}),
]  # fmt: skip


@pytest.mark.parametrize("remembered", [False, True])
@pytest.mark.parametrize(
    ("argument", "error", "message", "change"), WRONG, ids=[f"{w[0]}-{w[2]}" for w in WRONG]
)
def test_wrong_arguments(  # noqa: PLR0917 (as many parameters as a case has)
    blackwell: Context,
    argument: str,
    error: type[ArgumentError],
    message: str,
    change: dict[str, Any],
    remembered: bool,
) -> None:
    if remembered:
        tilewright.mm_nvfp4(*CALL)
        tilewright.mm_nvfp4(*CALL, **QUANTISED)
    call = {"a": A, "b": B, "a_descale": A_SCALES, "b_descale": B_SCALES, **change}
    with pytest.raises(error, match=message) as caught:
        tilewright.mm_nvfp4(**call)
    assert caught.value.argument == argument


def test_what_each_op_takes(blackwell: Context) -> None:
    fp8, _ = product(16, 32, 64, "mxfp8", "mxfp8")
    fp4, _ = product(16, 32, 64, "mxfp4", "mxfp4")
    with pytest.raises(
        ArgumentTypeError, match=r"a: .*expected one of float8_e4m3fn, float8_e5m2 by mm_mxfp8"
    ):
        tilewright.mm_mxfp8(*fp4)
    for call in (fp4, fp8):
        pairs = "(a, b) of (float8_e4m3fn, float4_e2m1fn_x2), (float4_e2m1fn_x2, float8_e4m3fn), "
        with pytest.raises(ArgumentTypeError, match=re.escape(pairs)):
            tilewright.mm_mxfp8_mxfp4(*call)
    with pytest.raises(ArgumentTypeError, match="a_descale"):
        tilewright.mm_mxfp4(fp4[0], fp4[1], fp4[2].view(torch.uint8).view(E4M3), fp4[3])


@pytest.mark.parametrize("n", [32, 20])
@pytest.mark.parametrize("name", ["a", "b", "a_descale", "b_descale", "c", "alpha"])
def test_operands_within_the_result(blackwell: Context, name: str, n: int) -> None:
    room = torch.zeros(64, 64, dtype=torch.bfloat16)
    out = room[:16, 8 : 8 + n]
    raw = room.view(torch.uint8)
    tensors = {
        "a": raw[:16, 16:48],
        "b": raw[:n, 16:48].mT,
        "a_descale": raw.flatten()[: 128 * 4],
        "b_descale": raw.flatten()[: 128 * 4],
        "c": room[:16, 16 : 16 + n],
        "alpha": room[5, 8:10].view(torch.float32),
    }
    left, left_scales = operand(16, 64)
    right, right_scales = operand(n, 64, seed=1)
    call = {
        "a": left, "b": right.mT, "a_descale": left_scales, "b_descale": right_scales,
        "c": torch.zeros(16, n).bfloat16(), name: tensors[name],
    }  # fmt: skip
    with pytest.raises(ArgumentError, match=f"it overlaps {name}, or lies among") as caught:
        tilewright.mm_nvfp4(**call, out=out, beta=1.0)
    assert caught.value.argument == "out"
