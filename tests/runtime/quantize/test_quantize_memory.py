"""Where operands of `quantize` lie: what is copied, what may overlap, and tensors without elements."""

from __future__ import annotations

import itertools
import logging
from typing import Any

import pytest
import torch
from quantize_operands import (
    BYTE_FORMATS,
    FP8,
    GS,
    POISON,
    as_bytes,
    data_of,
    dequantizer,
    equal_tensors,
    quantizer,
)

import tilewright
from tilewright import blockwise_scales, reference, scale_factors
from tilewright.context import Context
from tilewright.contract.tensors import same
from tilewright.errors import ArgumentError


@pytest.mark.parametrize("shape", [(0, 64), (5, 0), (0, 8, 64), (2, 0, 64), (2, 8, 0)])
def test_nothing_to_quantise(hopper: Context, shape: tuple[int, ...]) -> None:
    x = torch.zeros(shape, dtype=torch.bfloat16)
    for name, layout in itertools.product(BYTE_FORMATS, scale_factors.LAYOUTS):
        data, scales = quantizer(name)(x, layout=layout)
        expected, wanted_scales = reference.quantize(x, name, layout=layout)
        assert same(data, expected)
        assert same(scales, wanted_scales)
        assert dequantizer(name)(data, scales, layout=layout).shape == shape
    for block, scale_type, layout in FP8:
        data, scales = tilewright.quantize_fp8_blockwise(x, block, scale_type=scale_type, scale_layout=layout)
        assert data.shape == shape
        assert scales.numel() == 0
        assert tilewright.dequantize_fp8_blockwise(data, scales, block).shape == shape


def shifted(tensor: Any, by: int) -> Any:
    """A copy whose address is a multiple of `by` bytes and of no more."""
    flat = tensor.contiguous().view(torch.uint8).flatten()
    room = torch.empty(flat.numel() + 128, dtype=torch.uint8)
    start = -room.data_ptr() % 64 + by
    return room[start : start + flat.numel()].copy_(flat).view(tensor.dtype).view(tensor.shape)


def test_what_lies_badly_is_copied(hopper: Context, caplog: pytest.LogCaptureFixture) -> None:
    x = data_of((130, 96))
    expected = reference.quantize(x, "nvfp4", GS)
    wide = torch.zeros(130, 100).bfloat16()
    wide[:, :96] = x
    wider = torch.zeros(130, 104).bfloat16()
    wider[:, :96] = x
    for given, copied in (
        (x, False), (wider[:, :96], False), (wide[:, :96], True), (shifted(x, 2), True),
        (shifted(x, 16), False), (x.t().contiguous().t(), True),
    ):  # fmt: skip
        caplog.clear()
        assert equal_tensors(tilewright.quantize_nvfp4(given, GS), expected)
        assert ("copies x," in caplog.text) == copied
    for out_by, scales_by in ((4, 16), (16, 4), (1, 1), (8, 16)):
        caplog.clear()
        out = shifted(torch.full((130, 48), POISON, dtype=torch.uint8), out_by)
        out_scales = shifted(torch.full((256, 8), POISON, dtype=torch.uint8), scales_by)
        data, scales = tilewright.quantize_nvfp4(x, GS, out=out, out_scales=out_scales)
        assert data is out
        assert scales is out_scales
        assert same(out, expected[0])
        assert torch.equal(out_scales, as_bytes(expected[1]))
        assert ("copies" in caplog.text) == (out_by < 8 or scales_by < 16)
    room = torch.full((130, 60), POISON, dtype=torch.uint8)
    for width in (56, 60):  # rows at multiples of 8, and of 4
        part = room.view(-1)[: 130 * width].view(130, width)[:, :48]
        tilewright.quantize_nvfp4(x, GS, out=part)
        assert same(part, expected[0])
        assert bool((room.view(-1)[: 130 * width].view(130, width)[:, 48:] == POISON).all())
        room.fill_(POISON)


def test_masked_rows_of_a_copied_out_stay(hopper: Context) -> None:
    x = data_of((2, 40, 64))
    valid = torch.tensor([3, 40], dtype=torch.int32)
    out = shifted(torch.full((2, 40, 32), POISON, dtype=torch.uint8), 1)
    tilewright.quantize_nvfp4(x, rows_valid=valid, out=out)
    assert bool((out[0, 3:] == POISON).all())
    assert same(out[0, :3], reference.quantize(x, "nvfp4")[0][0, :3])


def test_scales_of_ones_own(hopper: Context) -> None:
    x = data_of((2, 130, 272))
    for block, scale_type, layout in FP8:
        wanted_scales = reference.quantize_fp8_blockwise(x, block, scale_type, layout)[1]
        own = blockwise_scales.allocate(wanted_scales.shape, dtype=wanted_scales.dtype, device="cpu")
        if layout == "row_major":
            own = torch.empty_like(wanted_scales)
        else:
            blockwise_scales.with_padding(own).fill_(7)
        _, scales = tilewright.quantize_fp8_blockwise(
            x, block, scale_type=scale_type, scale_layout=layout, out_scales=own
        )
        assert scales is own
        assert same(scales, wanted_scales)
        if layout != "row_major":
            assert not blockwise_scales.with_padding(own)[..., 130:].any()
            memory = shifted(torch.full_like(blockwise_scales.with_padding(own), 7), 4)
            tilewright.quantize_fp8_blockwise(
                x, block, scale_type=scale_type, scale_layout=layout, out_scales=memory[..., :130].mT
            )
            assert same(memory[..., :130].mT, wanted_scales)
            assert not memory[..., 130:].any()
    with pytest.raises(ArgumentError, match=r"out_scales: strides .* memory for"):
        tilewright.quantize_fp8_blockwise(x[0], out_scales=torch.empty_strided((130, 3), (1, 132)))


def test_overlaps_are_refused(hopper: Context) -> None:
    x = torch.zeros(64, 64).bfloat16()
    room = x.view(torch.uint8).view(64, 128)
    with pytest.raises(ArgumentError, match="overlaps x"):
        tilewright.quantize_nvfp4(x, out=room[:, :32])
    with pytest.raises(ArgumentError, match=r"^out_scales: it overlaps x"):
        tilewright.quantize_nvfp4(x, out_scales=room.view(-1)[: 128 * 4])
    data, scales = tilewright.quantize_nvfp4(x)
    with pytest.raises(ArgumentError, match=r"^out: it overlaps data"):
        tilewright.dequantize_nvfp4(room[:, :32], scales, out=x)
    both = torch.zeros(64 * 32 + 128 * 4, dtype=torch.uint8)
    with pytest.raises(ArgumentError, match="overlaps"):
        tilewright.quantize_nvfp4(x, out=both[: 64 * 32].view(64, 32), out_scales=both[-128 * 4 - 64 : -64])
    assert data.shape == (64, 32)


def test_what_is_read_may_overlap(hopper: Context) -> None:
    x = data_of((64, 64))
    expected = tilewright.quantize_nvfp4(x, rms_weight=x[0].clone())
    assert equal_tensors(tilewright.quantize_nvfp4(x, rms_weight=x[0]), expected)


@pytest.mark.parametrize("m", [9, 130])
@pytest.mark.parametrize("options", [{}, {"scale_type": "ue8m0"}, {"block": (128, 128)}])
def test_scales_that_lie_otherwise_are_copied(
    hopper: Context, m: int, options: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    x = data_of((m, 1040)).clamp(-1, 1).nan_to_num(0.5)
    data, scales = tilewright.quantize_fp8_blockwise(x, **options)
    block = options.get("block", (1, 128))
    expected = tilewright.dequantize_fp8_blockwise(data, scales, block)
    wide = torch.zeros(*scales.shape, 2, dtype=scales.dtype)
    wide[..., 0] = scales
    for other in (scales * 1, wide[..., 0]):
        with caplog.at_level(logging.WARNING, logger="tilewright"):
            assert same(tilewright.dequantize_fp8_blockwise(data, other, block), expected)
    if block == (1, 128) and not options:
        part = tilewright.dequantize_fp8_blockwise(data[: m - 3], scales[: m - 3])
        assert same(part, expected[: m - 3])
    assert "copies scales" in caplog.text
