"""Casts of `tilewright.compat.deep_gemm` to FP8 and FP4, and layouts of scales."""

from __future__ import annotations

import pytest
import torch
from deep_gemm_operands import matrix

import tilewright
from tilewright import blockwise_scales
from tilewright.compat import deep_gemm
from tilewright.context import Context
from tilewright.declarations.matrices import layout_of
from tilewright.errors import ArgumentError, ArgumentTypeError


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
    """Nothing would be left of one row."""
    with pytest.raises(ArgumentError, match="a: it has 1 rows"):
        deep_gemm.transpose_packed_fp4(torch.zeros(1, 8, dtype=torch.int8))


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


def test_scales_of_a_batch_with_gaps_are_laid_out_anew(all_hosts: Context) -> None:
    wide = blockwise_scales.m_major(matrix(2, 8, 6))
    gaps = wide[..., :3]  # each matrix lies m_major; three columns are skipped between two
    assert gaps.stride() == (48, 1, 8)
    made = deep_gemm.get_mn_major_tma_aligned_tensor(gaps)
    assert made.stride() == (24, 1, 8)
    assert torch.equal(made, gaps)
    whole = blockwise_scales.m_major(matrix(2, 8, 3))
    assert deep_gemm.get_mn_major_tma_aligned_tensor(whole) is whole
    assert deep_gemm.get_mn_major_tma_aligned_tensor(gaps[0]).data_ptr() == gaps.data_ptr()


@pytest.mark.parametrize(("columns", "words"), [(1, 1), (4, 1), (5, 2), (7, 2), (8, 2)])
def test_words_of_a_last_block_that_is_short(all_hosts: Context, columns: int, words: int) -> None:
    exponents = torch.randint(-20, 20, (6, columns), generator=torch.Generator().manual_seed(columns))
    packed = deep_gemm.get_mn_major_tma_aligned_packed_ue8m0_tensor(2.0 ** exponents.float())
    assert packed.shape == (6, words)
    actual = packed.clone(memory_format=torch.contiguous_format).reshape(-1).view(torch.uint8).view(6, -1)
    assert torch.equal(actual[:, :columns].int() - 127, exponents.int())
    assert not actual[:, columns:].any()


@pytest.mark.parametrize(
    ("sizes", "words"), [([512, 512], 2), ([100, 512, 513, 0], 4), ([1, 1, 1], 3), ([1024, 640], 4)]
)
def test_words_of_groups_along_k(sizes: list[int], words: int) -> None:
    """Each group's last word may hold fewer than four exponents of 128 of k."""
    blocks = sum(-(-size // 128) for size in sizes)
    scales = torch.empty(blocks, 8, device="meta")
    ks = torch.empty(len(sizes), dtype=torch.int32, device="meta")
    arguments = scales, ks, sizes, 128, 128
    assert deep_gemm.get_k_grouped_mn_major_tma_aligned_packed_ue8m0_tensor(*arguments).shape == (words, 8)


@pytest.mark.parametrize(
    ("value", "power"), [(0.0, -126), (2.0**-149, -126), (2.0**-126, -126), (1.5 * 2.0**-126, -125)]
)
def test_the_least_scale(value: float, power: int) -> None:
    assert deep_gemm.ceil_to_ue8m0(torch.tensor([value, -value])).tolist() == [2.0**power] * 2


@pytest.mark.parametrize(("dtype", "unit"), [(torch.float32, 256), (torch.bfloat16, 512)])
@pytest.mark.parametrize("columns", [1, 256, 257, 700])
def test_rows_of_logits_are_whole_kilobytes(dtype: torch.dtype, unit: int, columns: int) -> None:
    from tilewright.compat.deep_gemm.attention import _rows  # noqa: PLC0415

    made = _rows(3, columns, dtype, torch.device("cpu"))
    assert made.shape == (3, columns)
    assert made.stride() == (-(-columns // unit) * unit, 1)
    assert layout_of(made)[0] == dtype
