"""`tilewright.compat.deep_gemm` without a GPU: products by host kernels, casts, settings, times."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import torch

import tilewright
from tilewright import blockwise_scales
from tilewright.calls import fast_path
from tilewright.compat import deep_gemm
from tilewright.compat.deep_gemm.testing import timing
from tilewright.context import Context
from tilewright.errors import ArgumentError, ArgumentTypeError
from tilewright.libraries.launcher_cache import CachedLaunchers


def matrix(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@pytest.fixture
def alignment() -> Iterator[None]:
    yield
    deep_gemm.set_mk_alignment_for_contiguous_layout(128)


@pytest.mark.parametrize("accumulate", ["no", "c", "d"])
@pytest.mark.parametrize("layout", ["nt", "nn", "tn", "tt"])
def test_layouts_of_a_product(host: Context, layout: str, accumulate: str) -> None:
    m, n, k = 24, 16, 32
    a, b = matrix(m, k).bfloat16(), matrix(n, k, seed=1).bfloat16()
    d = matrix(m, n, seed=2).bfloat16()
    c = {"no": None, "c": matrix(m, n, seed=3).bfloat16(), "d": d}[accumulate]
    expected = a.double() @ b.double().mT + (0 if c is None else c.double())
    given = (a if layout[0] == "n" else a.mT.contiguous(), b if layout[1] == "t" else b.mT.contiguous())
    getattr(deep_gemm, f"bf16_gemm_{layout}")(*given, d, c=c)
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
    d, squares = torch.empty(*parts, 5, 24), torch.empty(*parts, 5)
    deep_gemm.tf32_hc_prenorm_gemm(a, b, d, squares, num_splits=splits)
    cut = ((b.view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)  # TF32; there are no ties
    whole = (d, squares) if splits is None else (d.sum(0), squares.sum(0))
    torch.testing.assert_close(whole[0], a.float() @ cut.T, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(whole[1], a.float().square().sum(-1))


def test_an_equation_that_deep_gemm_lacks_is_refused() -> None:
    one = torch.zeros(1, 1)
    with pytest.raises(ArgumentError, match="'mk,nk->mn'; expected one of bmk,bnk->mn, "):
        deep_gemm.einsum("mk,nk->mn", one, one, one)


def test_the_alignment_of_groups_is_kept(alignment: None) -> None:
    assert deep_gemm.get_mk_alignment_for_contiguous_layout() == 128
    deep_gemm.set_mk_alignment_for_contiguous_layout(32)
    assert deep_gemm.utils.get_m_alignment_for_contiguous_layout() == 32
    with pytest.raises(ArgumentError, match="a multiple of 32"):
        deep_gemm.set_mk_alignment_for_contiguous_layout(48)
    assert deep_gemm.get_k_alignment_for_contiguous_layout() == 32


@pytest.mark.parametrize(("element_size", "wanted"), [(1, 144), (2, 136), (4, 132)])
def test_sizes_that_tma_reads(element_size: int, wanted: int) -> None:
    assert deep_gemm.get_tma_aligned_size(129, element_size) == wanted


def test_scales_that_lie_m_major_are_not_copied() -> None:
    scales = blockwise_scales.m_major(matrix(2, 5, 3))
    assert deep_gemm.get_mn_major_tma_aligned_tensor(scales) is scales


@pytest.mark.parametrize(
    ("value", "wanted"),
    [(1.0, 1.0), (1.001, 2.0), (0.75, 1.0), (-3.0, 4.0), (2.0**-140, 2.0**-126), (3.3e38, 2.0**127)],
)
def test_scales_are_rounded_up_to_powers_of_two(value: float, wanted: float) -> None:
    assert deep_gemm.ceil_to_ue8m0(torch.tensor([value])).item() == wanted


def test_words_of_four_exponents() -> None:
    scales = torch.tensor([[1.0, 2.0, 0.5, 2.0**-126]])
    packed = deep_gemm.pack_ue8m0_to_int(scales)
    assert packed.tolist() == [[127 | 128 << 8 | 126 << 16 | 1 << 24]]
    assert deep_gemm.unpack_ue8m0_from_int(packed).tolist() == [[1.0, 2.0, 0.5, 2.0**-126]]
    one_row = blockwise_scales.m_major(scales)  # as kernels read scales, whose rows are not contiguous
    assert torch.equal(deep_gemm.pack_ue8m0_to_int(one_row), packed)
    assert torch.equal(deep_gemm.unpack_ue8m0_from_int(blockwise_scales.m_major(packed)), scales)
    for wrong in (torch.full((1, 4), 3.0), torch.full((1, 4), -1.0), torch.ones(1, 3)):
        with pytest.raises(ArgumentError, match="powers of two"):
            deep_gemm.pack_ue8m0_to_int(wrong)
    with pytest.raises(ArgumentTypeError, match="float64"):
        deep_gemm.pack_ue8m0_to_int(scales.double())


@pytest.mark.parametrize("ue8m0", [False, True])
@pytest.mark.parametrize("gran_k", [32, 128])
def test_casts_to_fp8(gran_k: int, ue8m0: bool) -> None:
    """On the CPU by torch alone; blocks of 128 are what the kernels' reference makes, too."""
    x = matrix(2 * gran_k, 3 * gran_k) * torch.logspace(-6, 4, 2 * gran_k).unsqueeze(1)
    scale_type = "ue8m0" if ue8m0 else "float32"
    token, token_scales = deep_gemm.per_token_cast_to_fp8(x, ue8m0, gran_k)
    square, square_scales = deep_gemm.per_block_cast_to_fp8(x, ue8m0, gran_k)
    channel, channel_scales = deep_gemm.per_channel_cast_to_fp8(x, ue8m0, gran_k)
    if gran_k == 128:
        for block, (data, scales) in (
            ((1, 128), (token, token_scales)),
            ((128, 128), (square, square_scales)),
        ):
            expected = tilewright.reference.quantize_fp8_blockwise(x, block, scale_type=scale_type)
            assert torch.equal(data.view(torch.uint8), expected[0].view(torch.uint8))
            codes = blockwise_scales.unpack(expected[1], 3).float()[:: block[0]] if ue8m0 else expected[1]
            assert torch.equal(scales, codes)
    amax = x.abs().view(-1, gran_k, 3 * gran_k).amax(dim=1).clamp(1e-4)
    plain = amax / 448
    assert torch.equal(channel_scales, deep_gemm.ceil_to_ue8m0(plain) if ue8m0 else plain)
    for data, scales in (
        (token, token_scales.repeat_interleave(gran_k, 1)),
        (square, square_scales.repeat_interleave(gran_k, 0).repeat_interleave(gran_k, 1)),
        (channel, channel_scales.repeat_interleave(gran_k, 0)),
    ):
        assert data.dtype == torch.float8_e4m3fn
        error = (data.float() * scales - x).abs()
        assert (error <= x.abs() / 16 + scales * 2.0**-9).all()


def test_a_last_block_of_a_row_may_be_short() -> None:
    x = matrix(3, 200)
    data, scales = deep_gemm.per_token_cast_to_fp8(x, False)
    assert (data.shape, scales.shape) == (x.shape, (3, 2))
    assert torch.equal(scales[:, 1], x[:, 128:].abs().amax(dim=1) / 448)


def test_scales_over_chosen_dimensions() -> None:
    x = matrix(4, 5, 6)
    data, scales = deep_gemm.per_custom_dims_cast_to_fp8(x, (0,), False)
    assert torch.equal(scales, x.abs().amax(dim=(1, 2)) / 448)
    assert data.shape == x.shape


@pytest.mark.parametrize("packed", [False, True])
def test_casts_to_fp4_and_back(packed: bool) -> None:
    values = [0.0, 0.25, 0.26, 0.75, -0.2, -1.75, -5.0, 6.0, -6.0, 4.9, 2.5, 3.6]
    x = torch.tensor([values + [0.0] * 20]) * 4
    data, scales = deep_gemm.per_token_cast_to_fp4(x, True, gran_k=32, use_packed_ue8m0=packed)
    # The middle between two magnitudes becomes the smaller.
    expected = [0.0, 0.0, 0.5, 0.5, 0.0, -1.5, -4.0, 6.0, -6.0, 4.0, 2.0, 4.0]
    back = deep_gemm.cast_back_from_fp4(data, scales, gran_k=32, use_packed_ue8m0=packed)
    assert (back[0, :12] / 4).tolist() == expected
    assert data.dtype == torch.int8
    assert data[0, 2].item() & 255 == 0x00 + (11 << 4)  # -0.2 is +0, -1.75 is -1.5


def test_transposing_what_lies_two_to_a_byte() -> None:
    codes = torch.arange(24, dtype=torch.uint8).view(4, 6) % 16
    packed = (codes[:, 0::2] | codes[:, 1::2] << 4).view(torch.int8)
    expected = codes.mT.contiguous()
    made = deep_gemm.transpose_packed_fp4(packed)
    assert torch.equal(made.view(torch.uint8), expected[:, 0::2] | expected[:, 1::2] << 4)


@pytest.mark.parametrize("shape", [(0, 256), (3, 0), (0, 0)])
def test_casts_of_nothing(shape: tuple[int, int]) -> None:
    m, n = shape
    x = torch.empty(shape)
    for gran_k in (32, 128):
        data, scales = deep_gemm.per_token_cast_to_fp8(x, True, gran_k)
        assert (data.shape, scales.shape) == (shape, (m, n // gran_k))
        data, scales = deep_gemm.per_token_cast_to_fp4(x, True, gran_k)
        assert (data.shape, scales.shape) == ((m, n // 2), (m, n // gran_k))
        data, scales = deep_gemm.per_block_cast_to_fp8(x, False, gran_k)
        assert (data.shape, scales.shape) == (shape, (-(-m // gran_k), n // gran_k))


def test_an_odd_number_of_rows_is_not_transposed() -> None:
    """Of one row nothing would be left."""
    with pytest.raises(ArgumentError, match="a: it has 1 rows"):
        deep_gemm.transpose_packed_fp4(torch.zeros(1, 8, dtype=torch.int8))


def test_differences() -> None:
    x = matrix(64, 64)
    assert deep_gemm.testing.calc_diff(x, x) == pytest.approx(0.0, abs=1e-15)
    assert deep_gemm.testing.calc_diff(x * 0, x * 0) == 0.0
    assert deep_gemm.testing.calc_diff(x, 1.1 * x) == pytest.approx(0.01 / 2.21)
    assert deep_gemm.testing.count_bytes((x, [x[0]]), None) == 64 * 64 * 4 + 64 * 4
    y = x.clone()
    y[3, 5] += 1
    deep_gemm.testing.assert_bitwise_equal(x, x)
    with pytest.raises(AssertionError, match=r"xs: 1 elements differ; at \(3, 5\)"):
        deep_gemm.testing.assert_bitwise_equal(x, y, "xs")


def test_names_that_are_deep_gemms_mean_our_kernels(host: Context) -> None:
    ours = [("host_bf16_tn", 30e-6, 10), ("host_s8_tn", 10e-6, 20)]
    others = [("memset", 9e-6, 10), ("nvjet_tst", 50e-6, 5), ("a_gemm_", 1e-6, 5)]
    assert timing._seconds("bf16_gemm", ours + others, 10, several=False) == pytest.approx(4e-6)
    assert timing._seconds("host_", ours + others, 10, several=False) == pytest.approx(4e-6)
    assert timing._seconds("nvjet", ours + others, 10, several=False) == pytest.approx(10e-6)
    assert timing._seconds("reduce", others, 10, several=False) == 0.0
    assert timing._seconds("e", others, 10, several=True) == pytest.approx(3e-6)
    with pytest.raises(AssertionError, match="'e' is part of 3 kernels' names"):
        timing._seconds("e", others, 10, several=False)


def test_nothing_is_profiled_while_another_tool_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DG_USE_NVIDIA_TOOLS", "1")
    assert deep_gemm.testing.bench_kineto(pytest.fail, ("a", "b")) == (1.0, 1.0)
    assert deep_gemm.testing.bench_kineto(pytest.fail, "a") == 1.0


def test_programs_that_import_deep_gemm_get_this_package() -> None:
    code = (
        "from tilewright.compat import deep_gemm as ours; ours.install()\n"
        "import deep_gemm, deep_gemm.testing\n"
        "from deep_gemm.utils.math import align\n"
        "from deep_gemm.utils import set_mk_alignment_for_contiguous_layout\n"
        "set_mk_alignment_for_contiguous_layout(64)\n"
        "assert deep_gemm is ours and deep_gemm.testing is ours.testing\n"
        "assert ours.get_mk_alignment_for_contiguous_layout() == 64\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_exported_name_is_there() -> None:
    for module in (deep_gemm, deep_gemm.testing, deep_gemm.utils):
        assert [name for name in module.__all__ if not hasattr(module, name)] == []
        assert sorted(module.__all__) == list(module.__all__)


def quantised(
    x: torch.Tensor, block: tuple[int, int] = (1, 128)
) -> tuple[tuple[torch.Tensor, torch.Tensor], torch.Tensor]:
    """FP8 and row-major scales of matrices, and what they stand for."""
    cast = deep_gemm.per_token_cast_to_fp8 if block[0] == 1 else deep_gemm.per_block_cast_to_fp8
    flat = [cast(one, False) for one in x.view(-1, *x.shape[-2:])]
    data = torch.stack([each.view(torch.uint8) for each, _ in flat]).view(torch.float8_e4m3fn).view(x.shape)
    scales = torch.stack([each for _, each in flat])
    scales = scales.view(*x.shape[:-2], *scales.shape[-2:])
    spread = scales.repeat_interleave(128, -1)[..., : x.shape[-1]]
    if block[0] > 1:
        spread = spread.repeat_interleave(128, -2)[..., : x.shape[-2], :]
    return (data, scales), data.double() * spread


def close(found: torch.Tensor, wanted: torch.Tensor) -> None:
    assert deep_gemm.testing.calc_diff(found, wanted) < 1e-5


@pytest.mark.parametrize("layout", ["nt", "nn", "tn", "tt"])
def test_fp8_products_of_views(all_hosts: Context, layout: str) -> None:
    (a, x), (b, y) = quantised(matrix(20, 384)), quantised(matrix(256, 384, seed=1), (128, 128))
    turned = tuple(each.mT for each in a), tuple(each.mT for each in b)
    given = (a if layout[0] == "n" else turned[0], b if layout[1] == "t" else turned[1])
    d = torch.empty(20, 256, dtype=torch.bfloat16)
    getattr(deep_gemm, f"fp8_gemm_{layout}")(*given, d)
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
    with pytest.raises(ArgumentError, match="a recipe of both"):
        deep_gemm.fp8_gemm_nt(a, b, d, recipe_a=(1, 128))


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
def test_fp8_einsum(all_hosts: Context, expr: str) -> None:
    b, h, r, d = 6, 2, 256, 128
    summed, kept = (r, d) if expr.endswith("bhd") else (d, r)
    (x, given), (y, weights) = (
        quantised(matrix(b * h, summed)),
        quantised(matrix(h, d, r, seed=1), (128, 128)),
    )
    x = x[0].view(b, h, summed), x[1].view(b, h, -1)
    z = torch.empty(b, h, kept, dtype=torch.bfloat16)
    deep_gemm.fp8_einsum(expr, x, y, z)
    close(z, torch.einsum(expr, given.view(b, h, summed), weights))


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


def test_rows_without_a_group_are_zeroed(all_hosts: Context) -> None:
    """As DeepGEMM's kernels do on Hopper, whatever `ensure_zero_padding` says, also in 64 rows that all are
    padding."""
    m, n, k = 128, 128, 256
    (a, _), (b, _) = quantised(matrix(m, k)), quantised(matrix(1, n, k, seed=1), (128, 128))
    indices = torch.full((m,), -1, dtype=torch.int32)
    indices[:5] = 0
    d = torch.full((m, n), float("nan"), dtype=torch.bfloat16)
    deep_gemm.m_grouped_fp8_gemm_nt_contiguous(a, b, d, indices, ensure_zero_padding=False)
    assert d[:5].all()
    assert (d[5:] == 0).all()


def test_padding_is_zeroed_whatever_the_call_before_asked(all_hosts: Context, alignment: None) -> None:
    """The launcher that is kept for calls without zeros is not used by a call with them."""
    deep_gemm.set_mk_alignment_for_contiguous_layout(128)
    a, b = matrix(384, 256).bfloat16(), matrix(2, 128, 256, seed=1).bfloat16()
    ends = torch.tensor([5, 133], dtype=torch.int32)
    d = torch.empty(384, 128, dtype=torch.bfloat16)
    for zeroes in (False, False, True, False, True):
        d.fill_(7.0)
        deep_gemm.m_grouped_bf16_gemm_nt_contiguous(
            a, b, d, ends, use_psum_layout=True, ensure_zero_padding=zeroes
        )
        if zeroes:
            assert not d[5:128].any()
            assert not d[133:].any()
        else:
            assert (d[256:] == 7.0).all()


@pytest.mark.parametrize("fp8", [True, False])
@pytest.mark.parametrize("ends", [True, False])
def test_groups_of_rows(all_hosts: Context, alignment: None, ends: bool, fp8: bool) -> None:
    deep_gemm.set_mk_alignment_for_contiguous_layout(32)
    rows, n, k = [5, 0, 32, 40], 128, 256
    starts = [0, 32, 32, 64]
    m = 128
    (a, x), (b, y) = quantised(matrix(m, k)), quantised(matrix(4, n, k, seed=1), (128, 128))
    indices = torch.full((m,), -1, dtype=torch.int32)
    for group, (start, count) in enumerate(zip(starts, rows, strict=True)):
        indices[start : start + count] = group
    layout = (
        torch.tensor([s + c for s, c in zip(starts, rows, strict=True)], dtype=torch.int32)
        if ends
        else indices
    )
    d = torch.full((m, n), float("nan"), dtype=torch.bfloat16)
    if fp8:
        deep_gemm.m_grouped_fp8_gemm_nt_contiguous(a, b, d, layout, use_psum_layout=ends)
    else:
        x, y = x.bfloat16(), y.bfloat16()
        deep_gemm.m_grouped_bf16_gemm_nn_contiguous(x, y.mT.contiguous(), d, layout, use_psum_layout=ends)
    expected = torch.zeros(m, n, dtype=torch.float64)
    for group in range(4):
        of_group = indices == group
        expected[of_group] = x[of_group].double() @ y[group].double().mT
    close(d, expected)
    assert not d[indices < 0].any()


@pytest.mark.parametrize("fp8", [True, False])
def test_masked_groups(all_hosts: Context, fp8: bool) -> None:
    (a, x), (b, y) = quantised(matrix(3, 16, 256)), quantised(matrix(3, 128, 256, seed=1), (128, 128))
    counts = torch.tensor([16, 0, 7], dtype=torch.int32)
    d = torch.zeros(3, 16, 128, dtype=torch.bfloat16)
    if fp8:
        deep_gemm.m_grouped_fp8_gemm_nt_masked(a, b, d, counts, 8)
    else:
        x, y = x.bfloat16(), y.bfloat16()
        deep_gemm.m_grouped_bf16_gemm_nt_masked(x, y, d, counts, 8)
    for group, count in enumerate(counts.tolist()):
        close(d[group, :count], x[group, :count].double() @ y[group].double().mT)


@pytest.mark.parametrize("layout", ["nt", "tn"])
def test_groups_along_k(all_hosts: Context, layout: str) -> None:
    sizes, m, n = [256, 0, 128], 16, 24
    total = sum(sizes)
    (a, x), (b, y) = quantised(matrix(m, total)), quantised(matrix(n, total, seed=1))
    d = matrix(3, m, n, seed=2)
    parts = [(p.double(), q.double()) for p, q in zip(x.split(sizes, 1), y.split(sizes, 1), strict=True)]
    expected = torch.stack([c.double() + p @ q.mT for c, (p, q) in zip(d, parts, strict=True)])
    ks = torch.tensor(sizes, dtype=torch.int32)
    if layout == "nt":
        parted = [data.view(torch.uint8).split(sizes, 1) for data, _ in (a, b)]
        flat = [torch.cat([part.flatten() for part in each]).view(a[0].dtype) for each in parted]
        deep_gemm.k_grouped_fp8_gemm_nt_contiguous((flat[0], a[1]), (flat[1], b[1]), d, sizes, ks, d)
    else:
        turned = [
            (data.view(torch.uint8).mT.contiguous().view(data.dtype), s.mT.contiguous()) for data, s in (a, b)
        ]
        deep_gemm.k_grouped_fp8_gemm_tn_contiguous(*turned, d, sizes, ks, d)
    close(d, expected)


@pytest.mark.parametrize("sixteen", [False, True])
@pytest.mark.parametrize("alignment", [128, 64, 96])
def test_groups_along_k_by_their_ends(all_hosts: Context, sixteen: bool, alignment: int) -> None:
    """Between a group's end and where the next one begins, k is 0."""
    sizes, m, n = [200, 0, 100], 16, 24
    padded = [-(-size // alignment) * alignment for size in sizes]
    values = matrix(sum(padded), m), matrix(sum(padded), n, seed=1)
    ends, start = [], 0
    for size, whole in zip(sizes, padded, strict=True):
        ends.append(start + size)
        for each in values:
            each[ends[-1] : start + whole] = 0
        start += whole
    layout, d = torch.tensor(ends, dtype=torch.int32), matrix(3, m, n, seed=2)
    deep_gemm.set_mk_alignment_for_contiguous_layout(alignment)
    try:
        if sixteen:
            a, b = (each.bfloat16() for each in values)
            x, y = a.double(), b.double()
            call = lambda: deep_gemm.k_grouped_bf16_gemm_tn_contiguous(  # noqa: E731
                a, b, d, padded, layout, d, use_psum_layout=True
            )
        else:
            (p, x), (q, y) = (
                (each, values.mT) for each, values in (quantised(v.mT.contiguous()) for v in values)
            )
            turned = [(data.view(torch.uint8).mT.contiguous().view(data.dtype), s.mT) for data, s in (p, q)]
            call = lambda: deep_gemm.k_grouped_fp8_gemm_tn_contiguous(  # noqa: E731
                *turned, d, None, layout, d, use_psum_layout=True
            )
        if alignment % 64 or (alignment != 128 and not sixteen):
            with pytest.raises(ArgumentError, match=f"use_psum_layout: .* at multiples of {alignment}"):
                call()
            return
        parts = zip(d, x.double().split(padded), y.double().split(padded), strict=True)
        expected = torch.stack([c.double() + left.mT @ right for c, left, right in parts])
        call()
        close(d, expected)
    finally:
        deep_gemm.set_mk_alignment_for_contiguous_layout(128)


class TestWarmCalls:
    """What is like an earlier call goes round the op; what is not, does not."""

    @pytest.fixture
    def warm_ones(self, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
        """Of each call, whether it went round the op."""
        actual: list[bool] = []
        launch = fast_path.launch

        def look(*arguments: Any) -> bool:
            actual.append(launch(*arguments))
            return actual[-1]

        monkeypatch.setattr(fast_path, "launch", look)
        return actual

    def test_each_product(self, all_hosts: Context, warm_ones: list[bool]) -> None:
        counts = torch.tensor([4, 2], dtype=torch.int32)
        index = torch.tensor([0] * 4 + [1] * 4, dtype=torch.int32)
        for seed in range(3):
            (a, x), (flat, whole) = ready(matrix(2, 4, 256, seed=seed)), ready(matrix(8, 256, seed=seed + 3))
            (b, y) = quantised(matrix(2, 128, 256, seed=seed + 6), (128, 128))
            (rows, z) = ready(matrix(40, 256, seed=seed + 9))
            p, q = x[0].bfloat16(), y[0].bfloat16()
            for c in (False, True):
                d = torch.full((4, 128), 3.0, dtype=torch.bfloat16)
                deep_gemm.bf16_gemm_nt(p, q, d, d if c else None)
                close(d, p.double() @ q.double().mT + 3.0 * c)
            d = torch.zeros(8, 128, dtype=torch.bfloat16)
            deep_gemm.fp8_gemm_nt(flat, (b[0][1], b[1][1]), d)
            close(d, whole @ y[1].mT)
            wide = torch.ones(8, 40)
            deep_gemm.fp8_gemm_nt(flat, rows, wide, wide, recipe=(1, 1, 128))
            close(wide, whole @ z.mT + 1.0)
            masked = torch.zeros(2, 4, 128, dtype=torch.bfloat16)
            deep_gemm.m_grouped_fp8_gemm_nt_masked(a, b, masked, counts, 4)
            close(masked[1, :2], x[1, :2] @ y[1].mT)
            deep_gemm.m_grouped_bf16_gemm_nt_masked(x.bfloat16(), y.bfloat16(), masked, counts, 4)
            close(masked[1, :2], x[1, :2].bfloat16().double() @ y[1].bfloat16().double().mT)
            deep_gemm.m_grouped_fp8_gemm_nt_contiguous(flat, b, d, index)
            close(d[4:], whole[4:] @ y[1].mT)
            deep_gemm.m_grouped_bf16_gemm_nt_contiguous(whole.bfloat16(), y.bfloat16(), d, index)
            close(d[4:], whole[4:].bfloat16().double() @ y[1].bfloat16().double().mT)
        assert warm_ones == [False] * 8 + [True] * 16

    def test_parts_of_k(self, all_hosts: Context, warm_ones: list[bool]) -> None:
        sizes = [256, 0, 128]
        ks = torch.tensor(sizes, dtype=torch.int32)
        for seed in range(2):
            (a, x), (b, y) = ready(matrix(16, 384, seed=seed)), ready(matrix(24, 384, seed=seed + 2))
            flat = [
                torch.cat([part.flatten() for part in data.view(torch.uint8).split(sizes, 1)])
                for data in (a[0], b[0])
            ]
            p, q = ((each.view(a[0].dtype), scales) for each, scales in zip(flat, (a[1], b[1]), strict=True))
            d = matrix(3, 16, 24, seed=seed)
            parts = zip(d, x.split(sizes, 1), y.split(sizes, 1), strict=True)
            expected = torch.stack([c.double() + left @ right.mT for c, left, right in parts])
            deep_gemm.k_grouped_fp8_gemm_nt_contiguous(p, q, d, sizes, ks, d)
            close(d, expected)
        assert warm_ones == [False, True]

    def test_each_einsum(self, all_hosts: Context, warm_ones: list[bool]) -> None:
        shapes = {"b": 3, "h": 2, "d": 16, "r": 24, "m": 8, "n": 16, "k": 32}
        for seed in range(3):
            for expr in ("bmk,bnk->mn", "bhr,hdr->bhd", "bhd,hdr->bhr"):
                a, b, d = (
                    matrix(*(shapes[x] for x in term), seed=seed + i).bfloat16()
                    for i, term in enumerate(expr.replace("->", ",").split(","))
                )
                expected, added = torch.einsum(expr, a.double(), b.double()), d.clone()
                for c in (None, added):
                    deep_gemm.einsum(expr, a, b, d, c=c)
                    close(d, expected if c is None else expected + c)
        # No kernel of the host's reads weights as the last has them: they are copied, each time.
        assert warm_ones == [False] * 6 + [True, True, True, True, False, False] * 2

    def test_scales_that_are_laid_out_anew_are_so_each_time(
        self, all_hosts: Context, warm_ones: list[bool]
    ) -> None:
        for seed in range(2):
            (a, x), (b, y) = quantised(matrix(6, 256, seed=seed)), quantised(matrix(128, 256), (128, 128))
            d = torch.zeros(6, 128, dtype=torch.bfloat16)
            deep_gemm.fp8_gemm_nt(a, b, d)
            close(d, x @ y.mT)
        assert warm_ones == [False, False]

    def test_another_layout_or_address(self, all_hosts: Context, warm_ones: list[bool]) -> None:
        a, b = matrix(4, 64).bfloat16(), matrix(16, 64, seed=1).bfloat16()
        expected, wide = a.double() @ b.double().mT, torch.zeros(4, 32, dtype=torch.bfloat16)
        shifted = torch.zeros(4 * 64 + 8, dtype=torch.bfloat16)[8:].view(4, 64).copy_(a)
        dense = torch.zeros(4, 16, dtype=torch.bfloat16)
        for x, d in ((a, dense), (a, wide[:, :16]), (a, wide[:, 16:]), (a, dense), (shifted, dense)):
            d.zero_()
            deep_gemm.bf16_gemm_nt(x, b, d)
            close(d, expected)
        assert warm_ones[:4] == [False, False, True, True]

    def test_what_is_wrong_is_said_as_the_op_says_it(self, all_hosts: Context, warm_ones: list[bool]) -> None:
        a, b = matrix(4, 64).bfloat16(), matrix(16, 64, seed=1).bfloat16()
        d = torch.zeros(4, 16, dtype=torch.bfloat16)
        for _ in range(2):
            deep_gemm.bf16_gemm_nt(a, b, d)
        with pytest.raises(ArgumentError, match="overlap"):
            deep_gemm.bf16_gemm_nt(a, b, a.view(-1)[:64].view(4, 16))
        with pytest.raises(ArgumentTypeError, match="float16"):
            deep_gemm.bf16_gemm_nt(a, b.half(), d)
        with pytest.raises(ArgumentError, match="gradient"):
            deep_gemm.bf16_gemm_nt(a, b.clone().requires_grad_(), d)
        assert warm_ones == [False, True, False, False, False]

    def test_what_is_empty_is_not_planned_again_and_again(self, all_hosts: Context) -> None:
        a, b = matrix(0, 64).bfloat16(), matrix(16, 64).bfloat16()
        for _ in range(CachedLaunchers.MOST + 2):
            deep_gemm.bf16_gemm_nt(a, b, torch.zeros(0, 16, dtype=torch.bfloat16))
        (cached,) = all_hosts.plans.launchers.values()
        assert cached.layouts_seen == CachedLaunchers.MOST
        assert not cached.launchers


def ready(x: torch.Tensor) -> tuple[tuple[torch.Tensor, torch.Tensor], torch.Tensor]:
    """As `quantised`, with scales as kernels read them."""
    (data, scales), values = quantised(x)
    return (data, blockwise_scales.m_major(scales)), values


@pytest.mark.parametrize("sizes", [[128, 0, 64], [96, 0, 40]], ids=["one launch", "a launch for each"])
def test_groups_of_16_bits_along_k(all_hosts: Context, sizes: list[int]) -> None:
    ks = torch.tensor(sizes, dtype=torch.int32)
    for seed in range(2):
        a, b = matrix(sum(sizes), 16, seed=seed).bfloat16(), matrix(sum(sizes), 24, seed=seed + 2).bfloat16()
        d = matrix(3, 16, 24, seed=seed).to(torch.float32 if sizes[0] == 128 else torch.bfloat16)
        parts = zip(d, a.double().split(sizes), b.double().split(sizes), strict=True)
        expected = torch.stack([c.double() + x.mT @ y for c, x, y in parts])
        deep_gemm.k_grouped_bf16_gemm_tn_contiguous(a, b, d, sizes, ks, d)
        close(d, expected)
    launches = [key for key in all_hosts.plans if key[0] == "grouped_gemm_k"]
    assert len(launches) == (sizes[0] == 128)


def test_rows_by_index(all_hosts: Context) -> None:
    a, b = matrix(40, 64).bfloat16(), matrix(2, 16, 64, seed=1).bfloat16()
    groups = torch.tensor([0] * 20 + [-1] * 12 + [1] * 32, dtype=torch.int32)
    rows = torch.randint(0, 40, (64,), generator=torch.Generator().manual_seed(0), dtype=torch.int32)
    rows[20:32] = -1
    d = torch.empty(64, 16, dtype=torch.bfloat16)
    deep_gemm.legacy.a_fused_m_grouped_bf16_gemm_nt_contiguous_tl(a, b, d, (groups, rows))
    expected = torch.einsum("mk,mnk->mn", a[rows.clamp(0)].double(), b[groups.clamp(0)].double())
    close(d, expected * (groups >= 0)[:, None])


def test_rows_of_parts_by_index(all_hosts: Context) -> None:
    a, b = matrix(40, 16).bfloat16(), matrix(192, 24, seed=1).bfloat16()
    rows = torch.randint(0, 40, (192,), generator=torch.Generator().manual_seed(0))
    start, end = torch.tensor([0, 128]), torch.tensor([128, 192])
    d = matrix(2, 16, 24, seed=2)
    taken, kept = a[rows].double(), d.double()
    expected = torch.stack([taken[i:j].mT @ b[i:j].double() for i, j in ((0, 128), (128, 192))])
    deep_gemm.legacy.a_fused_k_grouped_bf16_gemm_tn_contiguous_tl(a, b, d, (rows, start, end), acc=True)
    close(d, expected + kept)
    e = torch.empty(2, 24, 16)
    deep_gemm.legacy.b_fused_k_grouped_bf16_gemm_tn_contiguous_tl(b, a, e, (rows, start, end), acc=False)
    close(e, expected.mT)


def test_layouts_of_scales_by_recipe(monkeypatch: pytest.MonkeyPatch, all_hosts: Context) -> None:
    transform = deep_gemm.transform_sf_into_required_layout
    rows, blocks = matrix(20, 3).abs(), matrix(2, 3).abs()
    for major in (9, 12, 10):
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device, major=major: (major, 0))
        made = transform(rows, 20, 384, (1, 128, 128), is_sfa=True)
        assert made.shape == ((20, 1) if major == 10 else (20, 3))
        assert made.stride() == (1, 20)
        assert transform(made, 20, 384, (1, 128)) is made
        assert transform(blocks, 256, 384, (128, 128), disable_ue8m0_cast=True) is blocks
    packed = transform(blocks, 200, 384, (128, 128))
    assert torch.equal(packed[:128], packed[:1].expand(128, 1))
    assert packed.shape == (200, 1)
    with pytest.raises(ArgumentError, match=r"its shape is \(20, 3\); expected \(20, 4\)"):
        transform(rows, 20, 512, (1, 128))
    with pytest.raises(ArgumentError, match="recipe of three"):
        transform(rows, 20, 384, (1, 128, 128))
    with pytest.raises(ArgumentError, match="there is no layout"):
        transform(rows, 20, 192, (1, 64))


def fp8(*shape: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Data, and scales of 128 of its last dimension that lie as kernels read them."""
    data = torch.randn(shape).to(torch.float8_e4m3fn)
    scales = torch.rand(*shape[:-1], shape[-1] // 128) + 0.5
    return data, blockwise_scales.m_major(scales)


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


@pytest.mark.parametrize("with_c", [False, True])
@pytest.mark.parametrize("layout", ["nt", "tn"])
@pytest.mark.parametrize("m", [0, 40])
def test_no_group_has_any_k(all_hosts: Context, m: int, layout: str, with_c: bool) -> None:
    """As of experts none of which has got a token."""
    n, fp8 = 24, torch.float8_e4m3fn
    d = torch.full((2, m, n), float("nan"))
    c = torch.randn(2, m, n) if with_c else None
    a, b = ((torch.empty(0, dtype=fp8), torch.empty(rows, 0)) for rows in (m, n))
    if layout == "tn":
        a, b = ((torch.empty(0, rows, dtype=fp8), torch.empty(0, rows)) for rows in (m, n))
    function = getattr(deep_gemm, f"k_grouped_fp8_gemm_{layout}_contiguous")
    for _ in range(2):
        function(a, b, d.fill_(float("nan")), [0, 0], torch.zeros(2, dtype=torch.int32), c)
        assert torch.equal(d, torch.zeros_like(d) if c is None else c)


def test_data_and_scales_of_another_k_are_refused(all_hosts: Context) -> None:
    (x, of_x), (y, of_y) = (quantised(matrix(40, 256, seed=seed))[0] for seed in range(2))
    sizes = torch.tensor([128, 128], dtype=torch.int32)
    with pytest.raises(ArgumentError, match="a: it has 10200 elements; expected 40 rows of 256"):
        deep_gemm.k_grouped_fp8_gemm_nt_contiguous(
            (x.flatten()[40:], of_x), (y.flatten(), of_y), torch.empty(2, 40, 40), None, sizes
        )


def test_parts_of_k_that_are_no_whole_stages_are_refused_where_the_host_knows(all_hosts: Context) -> None:
    (x, of_x), (y, of_y) = (quantised(matrix(40, 256, seed=seed))[0] for seed in range(2))
    sizes = [100, 156]
    operands = (x.flatten(), of_x), (y.flatten(), of_y), torch.empty(2, 40, 40)
    with pytest.raises(ArgumentError, match=r"ks_cpu: expected multiples of 128, got \[100, 156\]"):
        deep_gemm.k_grouped_fp8_gemm_nt_contiguous(*operands, sizes, torch.tensor(sizes, dtype=torch.int32))


def test_a_recipe_may_be_a_list(all_hosts: Context) -> None:
    """As pybind11 takes any sequence for a tuple. It has no hash to keep a launcher under."""
    (a, x), (b, y) = quantised(matrix(20, 384)), quantised(matrix(256, 384, seed=1), (128, 128))
    for _ in range(2):
        d = torch.full((20, 256), float("nan")).bfloat16()
        deep_gemm.fp8_gemm_nt(a, b, d, recipe=[1, 128, 128])  # type: ignore[arg-type]
        close(d, x @ y.mT)
