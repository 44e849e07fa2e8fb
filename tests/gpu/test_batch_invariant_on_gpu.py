"""In batch-invariant mode a row has the same bits whatever other rows are computed with it."""

from __future__ import annotations

import gemm_reference as reference
import pytest
import torch
from batched_products import FACTORIES, MOST, Product
from torch_helpers import built

import tilewright
from tilewright.context import current
from tilewright.families.gemm.problem import Problem
from tilewright.selection.families import family_of

# 60 values: around the rows of tiles and clusters, and between.
ROWS = (
    *range(1, 10),
    *(15, 16, 17, 24, 31, 33, 40, 48, 63, 64, 65, 80, 96, 100, 112, 127, 128, 129, 145, 160, 192, 200, 224),
    *(255, 257, 300, 320, 350, 400, 450, 513, 600, 640, 700, 777, 900, 1000, 1025, 1200, 1500, 1700, 1999),
    *(2048, 2500, 3000, 3500, 4097, 5000, 6000, 7000, 8191),
)
STARTS = ((77, 1), (1003, 16), (4001, 145), (130, 2500))  # first row and rows of calls that begin elsewhere
SHAPES = [  # n, k
    *((4096, 4096), (1536, 7168), (256, 22400), (2112, 7168), (576, 1536), (24576, 4096)),
    *((4096, 12288), (2560, 8192), (7168, 2048), (512, 16384), (128, 512), (1088, 4864)),
]
# Shapes where every m splits k (families/gemm/fixed_splits.py) into 2 to 4 ranges. In half of them kernels
# with k tiles of 128 and 256 bytes agree where the ranges begin.
SPLIT = [(256, 22400), (512, 16384), (1024, 21504), (768, 19136), (1472, 18304), (576, 6976), (1344, 24704)]
SPLITTING = [
    *("bf16", "f16", "bf16 into f32", "fp8", "fp8, fast", "bf16, addends", "fp8, addends", "bf16, gated"),
]
MOST_ERROR = 1e-2  # of the norm: D is rounded to BF16, and FP8's sums keep 14 bits
pytestmark = pytest.mark.marks_kernels


@pytest.mark.parametrize(("n", "k"), SHAPES)
@pytest.mark.parametrize("kind", FACTORIES)
def test_a_row_has_the_same_bits_in_every_batch(kind: str, n: int, k: int) -> None:
    check(kind, n, k)


@pytest.mark.parametrize(("n", "k"), SPLIT)
@pytest.mark.parametrize("kind", SPLITTING)
def test_a_split_k_gives_the_same_bits_in_every_batch(kind: str, n: int, k: int) -> None:
    check(kind, n, k)


def check(kind: str, n: int, k: int) -> None:
    with tilewright.batch_invariant():
        product = built(lambda: FACTORIES[kind](n, k))
        most = built(lambda: product.rows(0, MOST))
        check_values(product, most)
        for m in ROWS:
            assert torch.equal(product.rows(0, m), most[:m]), f"{kind}, {n}x{k}: {m} rows"
        for start, m in STARTS if product.any_start else ():
            rows = product.rows(start, m)
            assert torch.equal(rows, most[start : start + m]), f"{kind}, {n}x{k}: {m} rows from {start}"


def check_values(product: Product, most: torch.Tensor) -> None:
    """Equal bits of wrong rows are worth nothing: rows spread over all, by their norm."""
    assert bool(most.isfinite().all())
    assert float(most.float().norm()) > 0
    if product.expected is not None:
        rows = torch.arange(5, MOST, 511, device=most.device)
        expected = product.expected(rows)
        error = float((most[rows].double() - expected.double()).norm() / expected.double().norm())
        assert error < MOST_ERROR, error


def test_the_bits_do_not_depend_on_the_load() -> None:
    """Products of another stream take SMs from the kernels meanwhile."""
    other, busy = torch.cuda.Stream(), reference.random((4096, 4096), "bf16", 7)
    with tilewright.batch_invariant():
        product = built(lambda: FACTORIES["bf16"](256, 22400))
        alone = built(lambda: {m: product.rows(0, m) for m in ROWS})
        other.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(other):
            for _ in range(300):
                busy @ busy
        for m in ROWS:
            assert torch.equal(product.rows(0, m), alone[m]), f"{m} rows"
        torch.cuda.synchronize()


def test_another_split_gives_other_bits() -> None:
    """Otherwise equal bits would show nothing: the same kernel, with k as a whole and in two ranges."""
    m, n, k = 64, 4096, 4096
    left, right = reference.random((m, k), "bf16", 1), reference.random((n, k), "bf16", 2).t()
    with tilewright.batch_invariant():
        context = current()
        name = context.select(family_of("gemm"), Problem(m, n, k), context.device(0)).tactic.kernel
    whole = built(lambda: tilewright.gemm(left, right, tactic=name))
    split = built(lambda: tilewright.gemm(left, right, tactic=f"{name}@splits=2"))
    assert not torch.equal(whole, split)
