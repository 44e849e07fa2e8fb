"""DeepGEMM's functions with packed scales, with scales of 32 of k, and with FP4: which kernel they choose on
SM120, and which factor each element has in the call that reaches it. No GPU here multiplies by such scales.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from packed_operands import GROUPS, Call, K, M, N, bf16, codes, operand, values

from tilewright.compat import deep_gemm
from tilewright.context import Context
from tilewright.errors import ArgumentError, NotBuiltError


def dense(block: int) -> None:
    a, b = operand(M, K, block=block), operand(N, K, block=block, seed=1)
    deep_gemm.fp8_gemm_nt(a.pair, b.pair, bf16(M, N), recipe=(1, 1, block))


def dense_f32(block: int) -> None:
    a, b = operand(M, K, block=block), operand(N, K, block=block, seed=1)
    d = torch.zeros(M, N)
    deep_gemm.fp8_fp4_gemm_nt(a.pair, b.pair, d, d, recipe_a=(1, block), recipe_b=(1, block))


def heads(block: int) -> None:
    a, b = operand(M, K, block=block), operand(N, K, block=block, seed=1)
    deep_gemm.fp8_gemm_nt_skip_head_mid(a.pair, b.pair, bf16(M, 384), (64, 64, 64), recipe=(1, 1, block))


def contiguous(block: int) -> None:
    a, b = operand(M, K, block=block), operand(2, N, K, block=block, seed=1)
    rows = torch.zeros(M, dtype=torch.int32)
    deep_gemm.m_grouped_fp8_gemm_nt_contiguous(a.pair, b.pair, bf16(M, N), rows, recipe=(1, 1, block))


def psum(block: int) -> None:
    a, b = operand(256, K, block=block), operand(2, N, K, block=block, seed=1)
    deep_gemm.m_grouped_fp8_fp4_gemm_nt_contiguous(
        a.pair, b.pair, bf16(256, N), GROUPS, recipe_a=(1, block), recipe_b=(1, block), use_psum_layout=True,
        expected_m_for_psum_layout=100,
    )  # fmt: skip


def masked(block: int) -> None:
    a, b = operand(2, M, K, block=block), operand(2, N, K, block=block, seed=1)
    d = bf16(2, M, N)
    deep_gemm.m_grouped_fp8_gemm_nt_masked(a.pair, b.pair, d, GROUPS, 64, recipe=(1, 1, block))


def bhr_hdr(block: int) -> None:
    a, b = operand(2, M, K, block=block), operand(2, N, K, block=block, seed=1)
    by_head = a.data.transpose(0, 1), a.words.transpose(0, 1)
    deep_gemm.fp8_einsum("bhr,hdr->bhd", by_head, b.pair, bf16(M, 2, N), recipe=(1, 1, block))


CALLS: dict[str, Callable[[int], None]] = {
    "grouping none": dense,
    "grouping none, f32": dense_f32,
    "heads": heads,
    "row index": contiguous,
    "ends": psum,
    "rows valid": masked,
    "bhr,hdr->bhd": bhr_hdr,
}


@pytest.mark.parametrize("block", [32, 128])
@pytest.mark.parametrize("name", CALLS)
def test_a_kernel_for_packed_scales_is_chosen(sm120: Context, name: str, block: int) -> None:
    with pytest.raises(NotBuiltError) as caught:
        CALLS[name](block)
    d = "f32" if name.endswith("f32") else "bf16"
    assert caught.value.message.startswith(f"grouped_gemm_sm120f_e4m3_e4m3_{d}_1x{block}_ue8m0_")


@pytest.mark.parametrize("block", [32, 128])
@pytest.mark.parametrize("name", CALLS)
def test_words_reach_the_kernel_as_they_lie(recorded: Call, name: str, block: int) -> None:
    CALLS[name](block)
    assert recorded.named["scale_block"] == block
    of_a, of_b = recorded.factors(K)
    batch_a = (2,) if name in {"rows valid", "bhr,hdr->bhd"} else ()
    batch_b = (2,) if batch_a or name in {"row index", "ends"} else ()
    m = 256 if name == "ends" else M
    assert torch.equal(of_a, operand(*batch_a, m, K, block=block).factors)
    assert torch.equal(of_b, operand(*batch_b, N, K, block=block, seed=1).factors)


def test_the_recipe_of_packed_scales_is_of_rows(recorded: Call) -> None:
    """DeepGEMM's default, if B's are packed."""
    a, b = operand(M, K, block=128), operand(N, K, block=128, seed=1)
    deep_gemm.fp8_gemm_nt(a.pair, b.pair, bf16(M, N))
    assert recorded.named["scale_block"] == 128
    assert torch.equal(recorded.factors(K)[1], b.factors)


def test_blocks_of_two_sizes_meet_in_the_smaller(recorded: Call) -> None:
    a, b = operand(M, K, block=128), operand(N, K, block=32, seed=1)
    deep_gemm.fp8_fp4_gemm_nt(a.pair, b.pair, bf16(M, N), recipe_a=(1, 128), recipe_b=(1, 32))
    assert recorded.named["scale_block"] == 32
    of_a, of_b = recorded.factors(K)
    assert torch.equal(of_a, a.factors)
    assert torch.equal(of_b, b.factors)


@pytest.mark.parametrize(("rows", "block"), [(1, 32), (128, 32), (1, 128), (128, 128)])
def test_floats_beside_words_are_packed(all_hosts: Context, recorded: Call, rows: int, block: int) -> None:
    a = operand(M, K, block=32)
    exponents = codes(N // rows, K // block, seed=1)
    b = torch.zeros(N, K, dtype=torch.float8_e4m3fn), values(exponents)
    deep_gemm.fp8_fp4_gemm_nt(a.pair, b, bf16(M, N), recipe_a=(1, 32), recipe_b=(rows, block))
    assert recorded.named["scale_block"] == 32
    of_a, of_b = recorded.factors(K)
    assert torch.equal(of_a, a.factors)
    assert torch.equal(of_b, values(exponents).repeat_interleave(rows, 0).repeat_interleave(block, 1))


def test_floats_of_32_are_packed(all_hosts: Context, recorded: Call) -> None:
    scales = [values(codes(rows, K // 32, seed=rows)) for rows in (M, N)]
    a, b = (
        (torch.zeros(rows, K, dtype=torch.float8_e4m3fn), of) for rows, of in zip((M, N), scales, strict=True)
    )
    deep_gemm.fp8_gemm_nt(a, b, bf16(M, N), recipe=(1, 1, 32))
    for actual, expected in zip(recorded.factors(K), scales, strict=True):
        assert torch.equal(actual, expected.repeat_interleave(32, 1))
    with pytest.raises(ArgumentError, match="disable_ue8m0_cast: it is True"):
        deep_gemm.fp8_gemm_nt(a, b, bf16(M, N), recipe=(1, 1, 32), disable_ue8m0_cast=True)


@pytest.mark.parametrize(
    ("recipes", "message"),
    [
        ({"recipe": (1, 128, 32)}, r"b's is \(128, 32\); packed scales of b are those of single rows"),
        ({"recipe": (1, 1, 128)}, r"a: its scales have shape \(128, 9\); expected \(128, 3\) by \(1, 128\)"),
        ({"recipe": (1, 1, 16)}, "recipe: it is "),
    ],
)
def test_what_packed_scales_are_not(recipes: dict[str, Any], message: str) -> None:
    a, b = operand(M, K, block=32), operand(N, K, block=32)
    words = operand(2, K, block=32).words if recipes["recipe"][1] == 128 else b.words
    with pytest.raises(ArgumentError, match=message):
        deep_gemm.fp8_gemm_nt(a.pair, (b.data, words), bf16(M, N), **recipes)
