"""In batch-invariant mode a row has the same bits whatever other rows are computed with it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gemm_reference as reference
import pytest
import torch
from scaled_products import by_blocks, by_rows
from torch_helpers import built

import tilewright
from tilewright.compat import deep_gemm

MOST = 8192  # rows
# 60 values: around the rows of tiles and clusters, and between.
ROWS = (
    *range(1, 10),
    *(15, 16, 17, 24, 31, 33, 40, 48, 63, 64, 65, 80, 96, 100, 112, 127, 128, 129, 145, 160, 192, 200, 224),
    *(255, 257, 300, 320, 350, 400, 450, 513, 600, 640, 700, 777, 900, 1000, 1025, 1200, 1500, 1700, 1999),
    *(2048, 2500, 3000, 3500, 4097, 5000, 6000, 7000, 8191),
)
SHAPES = [  # n, k
    *((4096, 4096), (1536, 7168), (256, 22400), (2112, 7168), (576, 1536), (24576, 4096)),
    *((4096, 12288), (2560, 8192), (7168, 2048), (512, 16384), (128, 512), (1088, 4864)),
]
# Shapes where every m splits k (families/gemm/fixed_splits.py) into 2 to 4 ranges. In half of them kernels
# with k tiles of 128 and 256 bytes agree where the ranges begin.
SPLIT = [(256, 22400), (512, 16384), (1024, 21504), (768, 19136), (1472, 18304), (576, 6976), (1344, 24704)]
pytestmark = pytest.mark.marks_kernels

Product = Callable[[int], torch.Tensor]  # the first m of MOST rows of D


def gemm(a: str, n: int, k: int, **options: object) -> Product:
    left, right = reference.random((MOST, k), a, 1), reference.random((n, k), a, 2).t()
    return lambda m: tilewright.gemm(left[:m], right, **options)


def with_addends(a: str, n: int, k: int) -> Product:
    """activation(alpha * A B + beta * C + bias), with factors whose products are rounded; FP8 has scales."""
    left, right = reference.random((MOST, k), a, 1), reference.random((n, k), a, 2).t()
    c, bias = reference.random((MOST, n), "bf16", 3), reference.random((n,), "bf16", 4)
    scales = torch.tensor([0.3, 1.7], device="cuda")
    options: dict[str, Any] = {"out_dtype": torch.bfloat16, "bias": bias, "activation": "silu"}
    if a == "e4m3":
        options |= {"scale_a": scales[:1], "scale_b": scales[1:]}
    return lambda m: tilewright.gemm(left[:m], right, c=c[:m], alpha=0.7, beta=1.3, **options)


def einsum(n: int, k: int) -> Product:
    left, right = reference.random((3, MOST, k), "bf16", 1), reference.random((3, n, k), "bf16", 2)
    return lambda m: tilewright.einsum("bmk,bnk->mbn", left[:, :m], right)


def scaled(n: int, k: int) -> Product:
    """D = A B^T with a scale for each 128 of a row of A and each 128 x 128 of B."""
    x = by_rows(reference.random((MOST, k), "bf16", 1))
    data, scales = by_blocks(reference.random((1, n, k), "bf16", 2))

    def product(m: int) -> torch.Tensor:
        d = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
        deep_gemm.fp8_gemm_nt((x[0][:m], x[1][:m]), (data[0], scales[0]), d)
        return d

    return product


def masked(n: int, k: int) -> Product:
    """The first m rows of each of three groups; kernels are chosen for m."""
    x = by_rows(reference.random((3, MOST, k), "bf16", 1))
    y = by_blocks(reference.random((3, n, k), "bf16", 2))

    def product(m: int) -> torch.Tensor:
        d = torch.empty(3, MOST, n, device="cuda", dtype=torch.bfloat16)
        counts = torch.full((3,), m, device="cuda", dtype=torch.int32)
        deep_gemm.m_grouped_fp8_gemm_nt_masked(x, y, d, counts, m)
        return d[:, :m].transpose(0, 1)

    return product


def contiguous(n: int, k: int) -> Product:
    """The first m rows of two groups, each padded to a multiple of 128."""
    x, y = reference.random((2, MOST, k), "bf16", 1), by_blocks(reference.random((2, n, k), "bf16", 2))

    def product(m: int) -> torch.Tensor:
        padded = -(-m // 128) * 128
        rows = by_rows(x[:, :padded].reshape(2 * padded, k))
        groups = torch.full((2, padded), -1, device="cuda", dtype=torch.int32)
        groups[0, :m], groups[1, :m] = 0, 1
        d = torch.empty(2 * padded, n, device="cuda", dtype=torch.bfloat16)
        deep_gemm.m_grouped_fp8_gemm_nt_contiguous(rows, y, d, groups.flatten())
        return d.view(2, padded, n)[:, :m].transpose(0, 1)

    return product


def nvfp4(n: int, k: int) -> Product:
    """FP4 weights and activations, decoded to 16 bits on Hopper."""
    x = reference.random((MOST, k), "bf16", 1)
    weight, weight_scales = tilewright.quantize_nvfp4(reference.random((n, k), "bf16", 2))

    def product(m: int) -> torch.Tensor:
        data, scales = tilewright.quantize_nvfp4(x[:m])
        result: torch.Tensor = tilewright.mm_nvfp4(data, weight.t(), scales, weight_scales)
        return result

    return product


ADDENDS = ("bf16, addends", "fp8, addends")
PRODUCTS: dict[str, Callable[[int, int], Product]] = {
    "bf16": lambda n, k: gemm("bf16", n, k),
    "f16": lambda n, k: gemm("f16", n, k),
    "bf16 into f32": lambda n, k: gemm("bf16", n, k, out_dtype=torch.float32),
    "fp8": lambda n, k: gemm("e4m3", n, k, out_dtype=torch.bfloat16),
    "fp8, fast": lambda n, k: gemm("e4m3", n, k, out_dtype=torch.bfloat16, fast_accum=True),
    "tf32": lambda n, k: gemm("tf32", n, k),
    "bf16, addends": lambda n, k: with_addends("bf16", n, k),
    "fp8, addends": lambda n, k: with_addends("e4m3", n, k),
    "einsum": einsum,
    "scaled": scaled,
    "masked": masked,
    "contiguous": contiguous,
    "nvfp4": nvfp4,
}


@pytest.mark.parametrize(("n", "k"), SHAPES)
@pytest.mark.parametrize("kind", PRODUCTS)
def test_a_row_has_the_same_bits_in_every_batch(kind: str, n: int, k: int) -> None:
    check(kind, n, k)


@pytest.mark.parametrize(("n", "k"), SPLIT)
@pytest.mark.parametrize("kind", ["bf16", "f16", "bf16 into f32", "fp8", "fp8, fast", *ADDENDS])
def test_a_split_k_gives_the_same_bits_in_every_batch(kind: str, n: int, k: int) -> None:
    check(kind, n, k)


def check(kind: str, n: int, k: int) -> None:
    with tilewright.batch_invariant():
        product = built(lambda: PRODUCTS[kind](n, k))
        most = built(lambda: product(MOST))
        assert bool(most.isfinite().all())
        assert float(most.float().norm()) > 0
        for m in ROWS:
            rows = product(m)
            assert torch.equal(rows, most[:m]), f"{kind}, {n}x{k}: {m} rows"
