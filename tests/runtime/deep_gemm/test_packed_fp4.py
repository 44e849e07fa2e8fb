"""DeepGEMM's functions with FP4, and with packed scales of groups along k: which kernel they choose on SM120,
and which factor each element has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from packed_operands import GROUPS, SIZES, Call, K, M, N, Operand, bf16, factors, operand

from tilewright import blockwise_scales
from tilewright.compat import deep_gemm
from tilewright.context import Context
from tilewright.errors import NotBuiltError

NAMES = {torch.int8: "mxfp4", torch.float8_e4m3fn: "e4m3"}


def data(dtype: torch.dtype, *shape: int) -> torch.Tensor:
    """Random bytes; FP4 has two elements to each, as DeepGEMM holds them."""
    *rows, k = shape
    held = (*rows, k // 2 if dtype == torch.int8 else k)
    return torch.randint(0, 120, held, generator=torch.Generator().manual_seed(k)).to(torch.uint8).view(dtype)


@pytest.mark.parametrize("b", NAMES)
@pytest.mark.parametrize("a", NAMES)
@pytest.mark.parametrize("grouping", ["none", "index", "ends", "masked", "heads", "einsum"])
def test_fp4_chooses_a_kernel(sm120: Context, grouping: str, a: torch.dtype, b: torch.dtype) -> None:
    """FP4 weights, activations or both, whose words are of 32 of k."""
    batch_a = (2,) if grouping in {"masked", "einsum"} else ()
    batch_b = () if grouping in {"none", "heads"} else (2,)
    x = data(a, *batch_a, M, K), operand(*batch_a, M, K, block=32).words
    y = data(b, *batch_b, N, K), operand(*batch_b, N, K, block=32).words
    recipes: dict[str, Any] = {"recipe_a": (1, 32), "recipe_b": (1, 32)}
    rows = torch.zeros(M, dtype=torch.int32)
    by_head = x[0].transpose(0, 1), x[1].transpose(0, 1)
    calls: dict[str, Callable[[], object]] = {
        "none": lambda: deep_gemm.fp8_fp4_gemm_nt(x, y, bf16(M, N), **recipes),
        "heads": lambda: deep_gemm.fp8_gemm_nt_skip_head_mid(
            x, y, bf16(M, 384), (64, 64, 64), recipe=(1, 1, 32)
        ),
        "index": lambda: deep_gemm.m_grouped_fp8_fp4_gemm_nt_contiguous(x, y, bf16(M, N), rows, **recipes),
        "ends": lambda: deep_gemm.m_grouped_fp8_fp4_gemm_nt_contiguous(
            x, y, bf16(M, N), GROUPS // 2, **recipes, use_psum_layout=True
        ),
        "masked": lambda: deep_gemm.m_grouped_fp8_fp4_gemm_nt_masked(
            x, y, bf16(2, M, N), GROUPS // 2, 64, **recipes
        ),
        "einsum": lambda: deep_gemm.fp8_einsum("bhr,hdr->bhd", by_head, y, bf16(M, 2, N), recipe=(1, 1, 32)),
    }
    with pytest.raises(NotBuiltError, match=f"^grouped_gemm_sm120f_{NAMES[a]}_{NAMES[b]}_bf16_1x32_ue8m0_"):
        calls[grouping]()


@pytest.mark.parametrize("layout", ["nt", "nn", "tn", "tt"])
def test_fp4_of_any_layout_reaches_the_kernel(recorded: Call, layout: str) -> None:
    """With m or n contiguous, two of which are in a byte."""
    operands = [(data(torch.int8, rows, K), operand(rows, K, block=32, seed=rows)) for rows in (M, N)]
    passed = []
    for (codes, scaled), turned in zip(operands, (layout[0] == "t", layout[1] == "n"), strict=True):
        turns = deep_gemm.utils.math.transpose_packed_fp4(codes), scaled.words.mT
        passed.append(turns if turned else (codes, scaled.words))
    product = getattr(deep_gemm, f"fp8_fp4_gemm_{layout}")
    product(*passed, bf16(M, N), recipe_a=(1, 32), recipe_b=(1, 32))
    left, right = recorded.positional[0], recorded.positional[1].mT
    for actual, (codes, _) in zip((left, right), operands, strict=True):
        assert actual.dtype == torch.uint8
        assert torch.equal(actual, codes.view(torch.uint8))
    for actual, (_, scaled) in zip(recorded.factors(K), operands, strict=True):
        assert torch.equal(actual, scaled.factors)


def test_factors_beside_fp4_are_those_of_32(recorded: Call) -> None:
    """DeepGEMM's mixed recipe: FP8 with words of 128 by FP4 with words of 32."""
    a, b = operand(M, K, block=128), operand(2, N, K, block=32, seed=1)
    d, rows = bf16(M, N), torch.zeros(M, dtype=torch.int32)
    weights = data(torch.int8, 2, N, K), b.words
    recipes: dict[str, Any] = {"recipe_a": (1, 128), "recipe_b": (1, 32)}
    deep_gemm.m_grouped_fp8_fp4_gemm_nt_contiguous(a.pair, weights, d, rows, **recipes)
    assert recorded.named["scale_block"] == 32
    of_a, of_b = recorded.factors(K)
    assert torch.equal(of_a, a.factors)
    assert torch.equal(of_b, b.factors)


def of_groups(rows: int, block: int, seed: int) -> Operand:
    """An operand whose k is divided by SIZES, of which each group begins with a new word."""
    parts = [operand(rows, int(k), block=block, seed=seed + i) for i, k in enumerate(SIZES) if k]
    return Operand(
        torch.cat([part.data.flatten() for part in parts]),
        blockwise_scales.m_major(torch.cat([part.words for part in parts], 1)),
        torch.cat([part.factors for part in parts], 1),
    )


@pytest.mark.parametrize("block", [32, 128])
def test_words_of_groups_of_k(recorded: Call, block: int) -> None:
    a, b = of_groups(72, block, 0), of_groups(136, block, 10)
    d = torch.zeros(len(SIZES), 72, 136)
    deep_gemm.k_grouped_fp8_gemm_nt_contiguous(a.pair, b.pair, d, SIZES.tolist(), SIZES, d, (1, 1, block))
    assert recorded.named["scale_block"] == 32
    rows, columns = recorded.positional[-2:]
    k = int(SIZES.sum())
    assert torch.equal(factors(rows, 32, k), a.factors)
    assert torch.equal(factors(columns.mT, 32, k), b.factors)


@pytest.mark.parametrize("layout", ["nt", "tn"])
def test_groups_of_k_choose_a_kernel_for_packed_scales(sm120: Context, layout: str) -> None:
    a, b = of_groups(72, 32, 0), of_groups(136, 32, 10)
    d, sizes = torch.zeros(len(SIZES), 72, 136), SIZES.tolist()
    if layout == "nt":
        with pytest.raises(NotBuiltError, match="grouped_gemm_sm120f_e4m3_e4m3_f32_1x32_ue8m0_"):
            deep_gemm.k_grouped_fp8_gemm_nt_contiguous(a.pair, b.pair, d, sizes, SIZES, d, (1, 1, 32))
        return
    pairs = [(x.data.view(-1, rows), x.words.mT) for x, rows in ((a, 72), (b, 136))]
    with pytest.raises(NotBuiltError, match="transpose_fp8_sm120f"):
        deep_gemm.k_grouped_fp8_gemm_tn_contiguous(*pairs, d, sizes, SIZES, d, (1, 1, 32))
