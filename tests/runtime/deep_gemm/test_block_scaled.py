"""`tilewright.compat.deep_gemm` by block-scaled kernels: results as if on a B200, and kept scales."""

from __future__ import annotations

import pytest
import torch
from block_scaled_operands import Operand, close

from tilewright import blockwise_scales
from tilewright.architectures.device import H200
from tilewright.compat import deep_gemm
from tilewright.compat.deep_gemm import block_scaled
from tilewright.context import Context, use
from tilewright.errors import ArgumentError, NoKernelError, UnsupportedDeviceError


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("accumulate", ["no", "c", "d"])
@pytest.mark.parametrize("layout", ["nt", "nn", "tn", "tt"])
def test_fp8(b200: Context, layout: str, accumulate: str, dtype: torch.dtype) -> None:
    """Scales of 1x128 and of 128x128, of n that is no multiple of 128."""
    a, b = Operand(20, 384), Operand(144, 384, block=(128, 128), seed=2)
    d = torch.randn(20, 144, generator=torch.Generator().manual_seed(4)).to(dtype)
    c = {"no": None, "c": d.clone(), "d": d}[accumulate]
    expected = a.values @ b.values.mT + (0 if c is None else d.double())
    turned = [tuple(part.mT.contiguous() for part in operand.pair) for operand in (a, b)]
    operands = a.pair if layout[0] == "n" else turned[0], b.pair if layout[1] == "t" else turned[1]
    getattr(deep_gemm, f"fp8_gemm_{layout}")(*operands, d, c)
    close(d, expected)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("across", [32, 128])
@pytest.mark.parametrize("fp4", [(False, False), (True, True), (False, True), (True, False)])
def test_fp4_and_packed_scales(b200: Context, fp4: tuple[bool, bool], across: int, packed: bool) -> None:
    """In each mixture of formats; recipes of each operand. k of 640 has five scales of 128: two words."""
    a = Operand(20, 640, block=(1, across), fp4=fp4[0])
    b = Operand(48, 640, block=(1, 32), fp4=fp4[1], seed=2)
    d = torch.empty(20, 48, dtype=torch.bfloat16)
    pairs = (a.packed, b.packed) if packed else (a.pair, b.pair)
    deep_gemm.fp8_fp4_gemm_nt(*pairs, d, recipe_a=(1, across), recipe_b=(1, 32))
    close(d, a.values @ b.values.mT)


def test_words_of_scales_have_a_row_each_by_default(b200: Context) -> None:
    a, b = Operand(20, 384), Operand(144, 384, seed=2)
    d = torch.empty(20, 144, dtype=torch.bfloat16)
    deep_gemm.fp8_gemm_nt(a.packed, b.packed, d)
    close(d, a.values @ b.values.mT)


def test_fp4_with_rows_contiguous(b200: Context) -> None:
    """Two rows of B lie in a byte: it is repacked."""
    a, b = Operand(20, 256, block=(1, 32), fp4=True), Operand(48, 256, block=(1, 32), fp4=True, seed=2)
    turned = deep_gemm.transpose_packed_fp4(b.data), b.scales.mT.contiguous()
    assert turned[0].shape == (256, 24)
    d = torch.empty(20, 48)
    deep_gemm.fp8_fp4_gemm_nn(a.pair, turned, d, recipe=(1, 1, 32))
    close(d, a.values @ b.values.mT)


@pytest.mark.parametrize("packed", [False, True])
def test_fp8_einsum(b200: Context, packed: bool) -> None:
    b, h, r, d = 6, 2, 256, 128
    for expr, summed, kept in (("bhr,hdr->bhd", r, d), ("bhd,hdr->bhr", d, r)):
        x = Operand(b, h, summed)
        y = Operand(h, d, r, block=(128, 128), seed=2)
        z = torch.empty(b, h, kept, dtype=torch.bfloat16)
        left = x.pair
        if packed:  # of rows in turn, m contiguous for each h
            codes = (x.scales.view(torch.int32) >> 23).to(torch.uint8).transpose(0, 1).contiguous()
            left = x.data, blockwise_scales.pack(codes).transpose(0, 1)
        deep_gemm.fp8_einsum(expr, left, y.pair, z)
        close(z, torch.einsum(expr, x.values, y.values))


def test_fp8_einsum_over_a_batch(b200: Context) -> None:
    """`bhd,bhr->hdr`, whose scales are of 128 of b."""
    b, h, r, d = 256, 2, 32, 48
    x, y = Operand(h, d, b), Operand(h, r, b, seed=2)  # by rows, and turned as the equation has them
    pairs = [
        (each.data.permute(2, 0, 1).contiguous(), each.scales.permute(2, 0, 1).contiguous())
        for each in (x, y)
    ]
    z = torch.randn(h, d, r, generator=torch.Generator().manual_seed(4))
    expected = z.double() + x.values @ y.values.mT
    deep_gemm.fp8_einsum("bhd,bhr->hdr", *pairs, z, z, recipe=(1, 1, 128))
    close(z, expected)


def test_a_gap_in_each_head_stays_as_it_is(b200: Context) -> None:
    heads, left, mid, right = 3, 40, 64, 88
    a, b = Operand(12, 256), Operand(heads * (left + right), 256, block=(128, 128), seed=2)
    d = torch.full((12, heads * (left + mid + right)), 7.0, dtype=torch.bfloat16)
    deep_gemm.fp8_gemm_nt_skip_head_mid(a.pair, b.pair, d, (left, mid, right))
    whole, product = d.view(12, heads, -1), (a.values @ b.values.mT).view(12, heads, -1)
    close(whole[..., :left], product[..., :left])
    close(whole[..., left + mid :], product[..., left:])
    assert (whole[..., left : left + mid] == 7.0).all()
    with pytest.raises(ArgumentError, match=r"heads of 40 \+ 88 columns, and of 40 \+ 16 \+ 88 in d"):
        deep_gemm.fp8_gemm_nt_skip_head_mid(a.pair, b.pair, d, (40, 16, 88))
    for splits in ((0, 0, 0), (0, 192, 0), (-40, 144, 88)):
        with pytest.raises(ArgumentError, match="head_splits: b has 384 rows and d 576 columns; expected"):
            deep_gemm.fp8_gemm_nt_skip_head_mid(a.pair, b.pair, d, splits)


@pytest.mark.parametrize("layout", ["nt", "tn"])
@pytest.mark.parametrize("with_c", [False, True])
def test_groups_along_k_by_sizes_on_the_host(b200: Context, layout: str, with_c: bool) -> None:
    sizes, m, n = [128, 0, 384], 16, 48
    parts = [slice(0, 128), slice(128, 128), slice(128, 512)]
    a, b = Operand(m, sum(sizes)), Operand(n, sum(sizes), seed=2)
    d = torch.randn(len(sizes), m, n, generator=torch.Generator().manual_seed(4))
    c = d.clone() if with_c else None
    expected = torch.stack([a.values[:, part] @ b.values[:, part].mT for part in parts])
    expected += d.double() if with_c else 0
    groups = torch.tensor(sizes, dtype=torch.int32)
    if layout == "nt":
        flat = [
            torch.cat([each.data.view(torch.uint8)[:, part].flatten() for part in parts]) for each in (a, b)
        ]
        pairs = [
            (data.view(torch.float8_e4m3fn), each.scales) for data, each in zip(flat, (a, b), strict=True)
        ]
        product = deep_gemm.k_grouped_fp8_gemm_nt_contiguous
    else:
        pairs = [(each.data.mT.contiguous(), each.scales.mT.contiguous()) for each in (a, b)]
        product = deep_gemm.k_grouped_fp8_gemm_tn_contiguous
    product(*pairs, d, sizes, groups, c)
    close(d, expected)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("across", [32, 128])
@pytest.mark.parametrize("sizes", [[128, 0, 384, 640], [128, 128]])
def test_scales_of_each_group_along_k(b200: Context, sizes: list[int], across: int, packed: bool) -> None:
    """Each group begins with a column of scales, or a word of four, of its own: of 32 and of 128 of k."""
    ends = torch.tensor(sizes).cumsum(0).tolist()
    parts = [slice(end - size, end) for size, end in zip(sizes, ends, strict=True)]
    a, b = (Operand(rows, ends[-1], block=(1, across), seed=rows) for rows in (16, 48))
    pairs = []
    for each in (a, b):
        data = torch.cat([each.data.view(torch.uint8)[:, part].flatten() for part in parts])
        scales = [each.scales[:, part.start // across : part.stop // across] for part in parts]
        codes = [(group.contiguous().view(torch.int32) >> 23).to(torch.uint8) for group in scales]
        words = torch.cat(list(map(blockwise_scales.pack, codes)), dim=1)
        pairs.append((data.view(torch.float8_e4m3fn), words if packed else each.scales))
    d = torch.empty(len(sizes), 16, 48)
    groups = torch.tensor(sizes, dtype=torch.int32)
    deep_gemm.k_grouped_fp8_gemm_nt_contiguous(*pairs, d, sizes, groups, recipe=(1, 1, across))
    close(d, torch.stack([a.values[:, part] @ b.values[:, part].mT for part in parts]))


def test_what_needs_block_scaled_kernels_on_hopper() -> None:
    """FP4, scales of 32 of k, and scales that are no float32: words, or bytes in the kernels' layout."""
    a, b = Operand(20, 384), Operand(144, 384, block=(128, 128), seed=2)
    fp4 = Operand(48, 384, block=(1, 32), fp4=True)
    ready = (b.data, torch.ones(256, 12, dtype=torch.uint8).view(torch.float8_e8m0fnu))
    with use(Context(described=H200)):
        assert not block_scaled.needed(a.pair, b.pair, None)
        assert block_scaled.needed(a.pair, b.packed, None)
        assert block_scaled.needed(a.packed, b.pair, None)
        assert block_scaled.needed(a.pair, ready, None)
        assert block_scaled.needed(a.pair, fp4.pair, None, (1, 128), (1, 32))
        assert block_scaled.needed(a.pair, b.pair, (1, 1, 32))


def test_what_is_refused(b200: Context) -> None:
    a, b = Operand(20, 384), Operand(144, 384, block=(128, 128), seed=2)
    d = torch.empty(20, 144, dtype=torch.bfloat16)
    with pytest.raises(ArgumentError, match="disable_ue8m0_cast: it is True; FP32 scales of 32 of k"):
        deep_gemm.fp8_gemm_nt(a.pair, b.pair, d, recipe=(1, 1, 32), disable_ue8m0_cast=True)
    with pytest.raises(ArgumentError, match=r"b: its scales have shape \(2, 2\); expected \(2, 3\)"):
        deep_gemm.fp8_gemm_nt(a.pair, (b.data, b.scales[:, :2]), d)
    with pytest.raises(ArgumentError, match=r"recipe: it is \(1, 64\) and \(128, 64\)"):
        deep_gemm.fp8_gemm_nt(a.pair, b.pair, d, recipe=(1, 128, 64))
    heads = torch.empty(20, 144 + 64, dtype=torch.bfloat16)
    with pytest.raises(ArgumentError, match="disable_ue8m0_cast: these tensor cores multiply by UE8M0"):
        deep_gemm.fp8_gemm_nt_skip_head_mid(a.pair, b.pair, heads, (72, 64, 72), disable_ue8m0_cast=True)
    narrow = Operand(48, 384, block=(1, 32), fp4=True)
    part, recipes = d[:, :48].clone(), {"recipe_a": (1, 128), "recipe_b": (1, 32)}
    with pytest.raises(NoKernelError, match="adds no C"):
        deep_gemm.fp8_fp4_gemm_nt(a.pair, narrow.pair, part, part.clone(), **recipes)
    groups = torch.zeros(20, dtype=torch.int32)
    for call in (
        lambda: deep_gemm.m_grouped_fp8_gemm_nt_contiguous(a.pair, b.pair, d, groups),
        lambda: deep_gemm.m_grouped_fp8_gemm_nt_masked(a.pair, b.pair, d, groups[:1], 4),
    ):
        with pytest.raises(UnsupportedDeviceError, match="no grouped_gemm kernel runs on NVIDIA B200"):
            call()


def test_products_are_compiled_whole(b200: Context) -> None:
    a, b = Operand(20, 384), Operand(144, 384, seed=2)

    def run(d: torch.Tensor) -> torch.Tensor:
        deep_gemm.fp8_gemm_nt(a.pair, b.pair, d, recipe=(1, 1, 128))
        return d + 1

    torch._dynamo.reset()
    made, expected = torch.zeros(20, 144), torch.zeros(20, 144)
    assert torch.equal(torch.compile(run, fullgraph=True, backend="aot_eager")(made), run(expected))
    assert torch.equal(made, expected)
    assert expected.any()
