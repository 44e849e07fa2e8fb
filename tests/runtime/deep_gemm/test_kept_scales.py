"""Scales of B that `tilewright.compat.deep_gemm` keeps in the layout of block-scaled kernels."""

from __future__ import annotations

import pytest
import torch
from block_scaled_operands import Operand, close

import tilewright
from tilewright.compat import deep_gemm
from tilewright.compat.deep_gemm import kept_scales
from tilewright.context import Context
from tilewright.errors import ArgumentError


def test_scales_of_b_are_converted_once(b200: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    """And again after a write that torch counts, of other memory, of another k, and when told to forget."""
    calls = []
    convert = tilewright.scale_columns
    monkeypatch.setattr(
        tilewright,
        "scale_columns",
        lambda scales, **options: calls.append(scales) or convert(scales, **options),
    )
    a, b = Operand(20, 384), Operand(144, 384, block=(128, 128), seed=2)
    d = torch.empty(20, 144, dtype=torch.bfloat16)

    def converted() -> int:
        calls.clear()
        deep_gemm.fp8_gemm_nt(a.pair, b.pair, d)
        return sum(scales is not a.scales for scales in calls)

    assert [converted() for _ in range(3)] == [1, 0, 0]
    before = d.clone()
    b.scales.mul_(2)
    assert [converted() for _ in range(2)] == [1, 0]
    assert torch.equal(d, before * 2)
    b.scales.view(-1)[0] *= 2
    assert converted() == 1
    b.scales = b.scales.clone()
    assert converted() == 1
    deep_gemm.forget_scales()
    assert [converted() for _ in range(2)] == [1, 0]
    deep_gemm.set_keep_scales(False)
    assert [converted() for _ in range(2)] == [1, 1]
    deep_gemm.set_keep_scales(True)
    assert [converted() for _ in range(2)] == [1, 0]


def test_other_scales_at_an_earlier_address_are_converted(b200: Context) -> None:
    """Memory that is given back, and taken again, holds other scales: no conversion outlives it."""
    a, b = Operand(20, 384), Operand(144, 384, block=(128, 128), seed=2)
    results = []
    for factor in (1.0, 4.0):
        scales = torch.full((2, 3), factor)
        d = torch.empty(20, 144)
        deep_gemm.fp8_gemm_nt(a.pair, (b.data, scales), d)
        results.append(d)
        del scales
    assert torch.equal(results[1], 4 * results[0])
    assert len(kept_scales._State.kept) == 1


def test_scales_are_converted_for_each_matrix_that_they_scale(b200: Context) -> None:
    """The same four scales are those of three matrices: of other extents, and turned."""
    a, scales = Operand(20, 256), torch.tensor([[1.0, 2.0], [4.0, 8.0]])
    whole = Operand(256, 256, block=(128, 128), seed=2)
    for rows, k, scales_of in ((256, 256, scales), (144, 240, scales), (256, 256, scales.mT)):
        data, d = whole.data[:rows, :k], torch.empty(20, rows)
        deep_gemm.fp8_gemm_nt((a.data[:, :k], a.scales), (data, scales_of), d)
        wide = scales_of.repeat_interleave(128, 0).repeat_interleave(128, 1)[:rows, :k]
        close(d, a.values[:, :k] @ (data.double() * wide).mT)
    assert len(kept_scales._State.kept) == 3


def test_tensors_whose_writes_torch_does_not_count_are_not_kept(b200: Context) -> None:
    a, b = Operand(20, 384), Operand(144, 384, block=(128, 128), seed=2)
    d = torch.empty(20, 144)
    with torch.inference_mode():
        scales = b.scales.clone()
    for _ in range(2):
        deep_gemm.fp8_gemm_nt(a.pair, (b.data, scales), d)
    assert not kept_scales._State.kept
    close(d, a.values @ b.values.mT)


def test_scales_in_the_layout_of_the_kernel_are_taken_as_they_are(b200: Context) -> None:
    a, b = Operand(20, 384), Operand(144, 384, block=(128, 128), seed=2)
    ready = tilewright.scale_columns(b.scales, layout="128x4", rows=144, k=384)
    d = torch.empty(20, 144)
    deep_gemm.fp8_gemm_nt(a.pair, (b.data, ready), d)
    close(d, a.values @ b.values.mT)
    assert not kept_scales._State.kept


def test_scales_that_are_no_powers_of_two(b200: Context) -> None:
    """Such scales of B are refused. Such scales of A make rows NaN, so that no result is wrong unnoticed."""
    a, b = Operand(20, 384), Operand(144, 384, block=(128, 128), seed=2)
    d = torch.empty(20, 144)
    with pytest.raises(ArgumentError, match="b: some of its scales are not positive powers of two"):
        deep_gemm.fp8_gemm_nt(a.pair, (b.data, b.scales * 3), d)
    assert not kept_scales._State.kept
    a.scales[3, 1] = 0.75
    deep_gemm.fp8_gemm_nt(a.pair, b.pair, d)
    wrong = d.isnan()
    assert wrong[3].all()
    assert not wrong[:3].any()
    assert not wrong[4:].any()
