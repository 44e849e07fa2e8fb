"""Products of one matrix by another, and einsum, of `tilewright.compat.deep_gemm`, by kernels of the host."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from deep_gemm_operands import close, fp8, matrix, quantised

from tilewright.compat import deep_gemm
from tilewright.context import Context
from tilewright.errors import ArgumentError, ArgumentTypeError


@pytest.mark.parametrize("accumulate", ["no", "c", "d"])
@pytest.mark.parametrize("layout", ["nt", "nn", "tn", "tt"])
def test_layouts_of_a_product(host: Context, layout: str, accumulate: str) -> None:
    m, n, k = 24, 16, 32
    a, b = matrix(m, k).bfloat16(), matrix(n, k, seed=1).bfloat16()
    d = matrix(m, n, seed=2).bfloat16()
    c = {"no": None, "c": matrix(m, n, seed=3).bfloat16(), "d": d}[accumulate]
    expected = a.double() @ b.double().mT + (0 if c is None else c.double())
    operands = (a if layout[0] == "n" else a.mT.contiguous(), b if layout[1] == "t" else b.mT.contiguous())
    getattr(deep_gemm, f"bf16_gemm_{layout}")(*operands, d, c=c)
    torch.testing.assert_close(d, expected.bfloat16())


@pytest.mark.parametrize("accumulate", [False, True])
@pytest.mark.parametrize("by_torch", [False, True])
def test_einsum_adds_c(host: Context, by_torch: bool, accumulate: bool) -> None:
    x, y = matrix(6, 3, 16).bfloat16(), matrix(3, 8, 16, seed=1).bfloat16()
    d = matrix(6, 3, 8, seed=2).bfloat16()
    c = d.clone() if accumulate else None
    expected = torch.einsum("bhr,hdr->bhd", x.double(), y.double()) + (0 if c is None else c.double())
    deep_gemm.einsum("bhr,hdr->bhd", x, y, d, c, use_cublaslt=by_torch)
    torch.testing.assert_close(d, expected.bfloat16(), rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("splits", [None, 1, 3])
def test_the_product_before_a_norm(prenorm: Context, splits: int | None) -> None:
    a, b = matrix(5, 200).bfloat16(), matrix(24, 200, seed=1)
    parts = () if splits is None else (splits,)
    d, squares = torch.full((*parts, 5, 24), torch.nan), torch.full((*parts, 5), torch.nan)
    deep_gemm.tf32_hc_prenorm_gemm(a, b, d, squares, num_splits=splits)
    cut = ((b.view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)  # TF32; there are no ties
    whole = (d, squares) if splits is None else (d.sum(0), squares.sum(0))
    torch.testing.assert_close(whole[0], a.float() @ cut.T, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(whole[1], a.float().square().sum(-1))


def test_an_equation_that_deep_gemm_lacks_is_refused() -> None:
    operand = torch.zeros(1, 1)
    with pytest.raises(ArgumentError, match="'mk,nk->mn'; expected one of bmk,bnk->mn, "):
        deep_gemm.einsum("mk,nk->mn", operand, operand, operand)


@pytest.mark.parametrize("layout", ["nt", "nn", "tn", "tt"])
def test_fp8_products_of_views(all_hosts: Context, layout: str) -> None:
    (a, x), (b, y) = quantised(matrix(20, 384)), quantised(matrix(256, 384, seed=1), (128, 128))
    turned = tuple(each.mT for each in a), tuple(each.mT for each in b)
    operands = (a if layout[0] == "n" else turned[0], b if layout[1] == "t" else turned[1])
    d = torch.full((20, 256), torch.nan, dtype=torch.bfloat16)
    getattr(deep_gemm, f"fp8_gemm_{layout}")(*operands, d)
    close(d, x @ y.mT)


def test_fp8_products_of_rows_scales_add_to_c(all_hosts: Context) -> None:
    (a, x), (b, y) = quantised(matrix(20, 384)), quantised(matrix(40, 384, seed=1))
    d = matrix(20, 40, seed=2)
    expected = x @ y.mT + d.double()
    deep_gemm.fp8_fp4_gemm_nt(a, b, d, c=d, recipe=(1, 1, 128))
    close(d, expected)
    for recipe, message in (
        ((1, 32, 128), "recipe: it is "),
        ((1, 1, 64), "recipe: it is "),
        ((128, 1, 128), r"A's is \(128, 128\); expected \(1, 128\)"),
        ((1, 1, 32), r"a: its scales have shape \(20, 3\); expected \(20, 12\) by \(1, 32\)"),
    ):
        with pytest.raises(ArgumentError, match=message):
            deep_gemm.fp8_gemm_nt(a, b, d, recipe=recipe)
    with pytest.raises(ArgumentError, match="expected recipe alone, or both recipe_a and recipe_b"):
        deep_gemm.fp8_gemm_nt(a, b, d, recipe_a=(1, 128))


@pytest.mark.parametrize(
    ("function", "others"),
    [
        ("fp8_gemm_nt", ()),
        ("fp8_gemm_nn", ()),
        ("fp8_gemm_nt_skip_head_mid", ((40, 64, 88),)),
        ("m_grouped_fp8_gemm_nt_contiguous", (torch.zeros(20, dtype=torch.int32),)),
        ("m_grouped_fp8_gemm_nt_masked", (torch.ones(1, dtype=torch.int32), 20)),
    ],
)
def test_an_operand_is_a_pair_of_data_and_scales(
    all_hosts: Context, function: str, others: tuple[Any, ...]
) -> None:
    (a, _), (b, _) = quantised(matrix(20, 384)), quantised(matrix(40, 384, seed=1))
    d = torch.zeros(20, 40, dtype=torch.bfloat16)
    call = getattr(deep_gemm, function)
    with pytest.raises(
        ArgumentTypeError, match=r"^a: it is a Tensor; expected a pair of tensors: data and s"
    ):
        call(a[0], b, d, *others)
    with pytest.raises(ArgumentTypeError, match=r"^b: it is a tuple of Tensor; expected a pair"):
        call(a, b[:1], d, *others)


@pytest.mark.parametrize(
    ("function", "others"),
    [
        ("fp8_gemm_nt", ()),
        ("fp8_gemm_nt_skip_head_mid", ((40, 64, 88),)),
        ("m_grouped_fp8_gemm_nt_contiguous", (torch.zeros(20, dtype=torch.int32),)),
        ("m_grouped_fp8_gemm_nt_masked", (torch.ones(1, dtype=torch.int32), 20)),
        ("k_grouped_fp8_gemm_nt_contiguous", (None, torch.tensor([384], dtype=torch.int32))),
    ],
)
def test_data_in_the_place_of_scales(all_hosts: Context, function: str, others: tuple[Any, ...]) -> None:
    (a, _), (b, _) = quantised(matrix(20, 384)), quantised(matrix(40, 384, seed=1))
    d = torch.zeros(20, 40, dtype=torch.bfloat16)
    call = getattr(deep_gemm, function)
    for name, operands in (("a", (a[::-1], b)), ("b", (a, b[::-1]))):
        message = rf"^{name}: its scales are torch.float8_e4m3fn; expected one of torch.floa"
        with pytest.raises(ArgumentTypeError, match=message):
            call(*operands, d, *others)


def test_data_in_the_place_of_scales_of_an_einsum(all_hosts: Context) -> None:
    (a, _), (b, _) = quantised(matrix(20, 384)), quantised(matrix(40, 384, seed=1))
    with pytest.raises(ArgumentTypeError, match=r"^b: its scales are torch.float8_e4m3fn"):
        deep_gemm.fp8_einsum("bhr,hdr->bhd", a, b[::-1], torch.zeros(20, 40, dtype=torch.bfloat16))


def test_a_gap_in_each_head_stays_as_it_is(all_hosts: Context) -> None:
    heads, left, mid, right = 3, 40, 64, 88
    n = heads * (left + right)
    (a, x), (b, y) = quantised(matrix(12, 256)), quantised(matrix(n, 256, seed=1), (128, 128))
    d = torch.full((12, heads * (left + mid + right)), 7.0, dtype=torch.bfloat16)
    deep_gemm.fp8_gemm_nt_skip_head_mid(a, b, d, (left, mid, right))
    whole, product = d.view(12, heads, -1), (x @ y.mT).view(12, heads, -1)
    close(whole[..., :left], product[..., :left])
    close(whole[..., left + mid :], product[..., left:])
    assert (whole[..., left : left + mid] == 7.0).all()
    with pytest.raises(ArgumentError, match="head_gap: expected a multiple of 8, got 12"):
        deep_gemm.fp8_gemm_nt_skip_head_mid(a, b, d, (40, 12, 88))
    with pytest.raises(ArgumentError, match="whole heads of"):
        deep_gemm.fp8_gemm_nt_skip_head_mid(a, b, d, (128, 64, 128))
    with pytest.raises(ArgumentError, match=r"out: its shape is \[12, 576\]; expected \[12, 432\]"):
        deep_gemm.fp8_gemm_nt_skip_head_mid(a, b, d, (40, 16, 88))


@pytest.mark.parametrize("expr", ["bhr,hdr->bhd", "bhd,hdr->bhr"])
def test_fp8_einsums_multiply_by_the_weights_of_each_head(all_hosts: Context, expr: str) -> None:
    b, h, r, d = 6, 2, 256, 128
    summed, kept = (r, d) if expr.endswith("bhd") else (d, r)
    (x, activations), (y, weights) = (
        quantised(matrix(b * h, summed)),
        quantised(matrix(h, d, r, seed=1), (128, 128)),
    )
    x = x[0].view(b, h, summed), x[1].view(b, h, -1)
    z = torch.full((b, h, kept), torch.nan, dtype=torch.bfloat16)
    deep_gemm.fp8_einsum(expr, x, y, z)
    close(z, torch.einsum(expr, activations.view(b, h, summed), weights))


def test_fp8_einsum_over_a_batch(all_hosts: Context) -> None:
    b, h, r, d = 256, 2, 32, 48
    cast = [deep_gemm.per_channel_cast_to_fp8(matrix(b, h * n, seed=n), False) for n in (d, r)]
    x, y = ((data.view(b, h, -1), scales.view(b // 128, h, -1)) for data, scales in cast)
    values = [(data.double() * scales.repeat_interleave(128, 0)).view(b, h, -1) for data, scales in cast]
    z = matrix(h, d, r)
    expected = z.double() + torch.einsum("bhd,bhr->hdr", *values)
    deep_gemm.fp8_einsum("bhd,bhr->hdr", x, y, z, z, recipe=(1, 1, 128))
    close(z, expected)
    with pytest.raises(ArgumentError, match="'ab,bc->ac'; expected one of"):
        deep_gemm.fp8_einsum("ab,bc->ac", x, y, z)


@pytest.mark.parametrize("function", ["nt", "contiguous", "masked", "along k"])
def test_fp8_products_are_compiled_whole(all_hosts: Context, function: str) -> None:
    """What is traced has no addresses, which decide whether a launcher is kept."""
    (x, of_x), (y, of_y), groups = fp8(2, 128, 256), fp8(2, 128, 256), torch.tensor([128, 128]).int()
    recipe = (1, 1, 128)

    def run(d: torch.Tensor) -> torch.Tensor:
        if function == "nt":
            deep_gemm.fp8_gemm_nt((x[0], of_x[0]), (y[0], of_y[0]), d[0], recipe=recipe)
        elif function == "contiguous":
            deep_gemm.m_grouped_fp8_gemm_nt_contiguous(
                (x[0], of_x[0]), (y, of_y), d[0], torch.ones(128).int(), recipe=recipe
            )
        elif function == "masked":
            deep_gemm.m_grouped_fp8_gemm_nt_masked((x, of_x), (y, of_y), d, groups, 64, recipe=recipe)
        else:
            pairs = (x[0].flatten(), of_x[0]), (y[0].flatten(), of_y[0])
            deep_gemm.k_grouped_fp8_gemm_nt_contiguous(*pairs, d, None, groups)
        return d + 1

    dtype = torch.float32 if function == "along k" else torch.bfloat16
    made, expected = (torch.zeros(2, 128, 128, dtype=dtype) for _ in range(2))
    torch._dynamo.reset()
    actual = torch.compile(run, fullgraph=True, backend="aot_eager")(made)
    assert torch.equal(actual, run(expected))
    assert torch.equal(made, expected)
    assert expected.any()


def test_a_recipe_may_be_a_list(all_hosts: Context) -> None:
    """As pybind11 takes any sequence for a tuple. It has no hash to keep a launcher under."""
    (a, x), (b, y) = quantised(matrix(20, 384)), quantised(matrix(256, 384, seed=1), (128, 128))
    for _ in range(2):
        d = torch.full((20, 256), float("nan")).bfloat16()
        deep_gemm.fp8_gemm_nt(a, b, d, recipe=[1, 128, 128])  # type: ignore[arg-type]
        close(d, x @ y.mT)


@pytest.mark.parametrize("same", [False, True], ids=["c", "c is d"])
@pytest.mark.parametrize("expr", ["bhr,hdr->bhd", "bhd,hdr->bhr"])
def test_fp8_einsum_adds_c(all_hosts: Context, expr: str, same: bool) -> None:
    b, h, r, d = 6, 2, 256, 128
    summed, kept = (r, d) if expr.endswith("bhd") else (d, r)
    (x, left), (y, right) = (
        quantised(matrix(b * h, summed)),
        quantised(matrix(h, d, r, seed=1), (128, 128)),
    )
    x = x[0].view(b, h, summed), x[1].view(b, h, -1)
    for _ in range(2):
        c = (10 * matrix(b, h, kept, seed=2)).bfloat16()
        result = c if same else torch.full_like(c, torch.nan)
        expected = torch.einsum(expr, left.view(b, h, summed), right) + c.double()
        deep_gemm.fp8_einsum(expr, x, y, result, c)
        close(result, expected)
