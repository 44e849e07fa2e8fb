"""The public ops: matrices into NVFP4, MXFP4, MXFP8 and FP8 in blocks of 128, and back.

`quantize_nvfp4` describes the arguments and the behaviour of ops that quantise, `dequantize_nvfp4` of ops
that read back. The other docstrings say what differs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from tilewright.calls.publish import public
from tilewright.declarations.tactics import Tactic
from tilewright.families.quantize.call import Quantize as _Quantize
from tilewright.families.quantize.call import ReadBack as _ReadBack
from tilewright.families.quantize.call import fp8_blockwise, mxfp8


@public(_Quantize("nvfp4"))
def quantize_nvfp4(
    x: torch.Tensor,
    global_scale: float | torch.Tensor | None = None,
    *,
    layout: str = "128x4",
    shuffle: bool = False,
    activation: str = "none",
    rms_weight: torch.Tensor | None = None,
    eps: float = 1e-6,
    rows_valid: torch.Tensor | None = None,
    fast: bool = False,
    four_over_six: str = "none",
    out: torch.Tensor | None = None,
    out_scales: torch.Tensor | None = None,
    tactic: Tactic | str | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Quantises x to NVFP4, on the current stream: E2M1 in blocks of 16 along k, each with an E4M3 scale
    factor.

    The result equals `tilewright.reference.quantize` bit for bit, also for NaN, infinities and subnormals.

    Args:
        x: [m, k], or [groups, m, k] (stacked experts), rows contiguous, in a wider tensor too; k a multiple
            of 16. bfloat16, float16, float32, and (NVFP4 only) float8_e4m3fn.
        global_scale: 448 * 6 / amax(x), or a number near it; 1 if absent. A number, or a float32 tensor: one
            element, one for each row ([m], [groups, m]: per token), or one for each group. A number or a CPU
            tensor of one element becomes a constant on the device, which is kept; tensors on other devices
            are copied, without waiting.
        layout: the layout of the scale factors: 128x4, 8x4 or linear, see `tilewright.scale_factors`.
        shuffle: stores rows and their scale factors in the order of `tilewright.row_shuffle`, which
            TensorRT-LLM's generated GEMMs require for weights (FlashInfer's do_shuffle). x is copied for it.
        activation: silu_mul quantises silu(x[..., :k]) * x[..., k:] of an x that is 2k wide.
        rms_weight: [k], of x's dtype: quantises x / sqrt(mean(x^2) + eps) * rms_weight. These two take
            bfloat16 and float16, compute in FP32 and round nothing in between; they are not exact to the bit.
        eps: added to the mean square.
        rows_valid: int32 [groups] on the device (one element for a matrix): the rows of each group that are
            read and written, from the first; the scale factors of other rows are 0.
        four_over_six: none, or mse or mae: each block has the better of two scale factors, of which one makes
            its amax 6 and the other makes it 4, by the sum of squares or of magnitudes of its errors (arXiv
            2512.02010). The second is larger by half: with a global scale of 256 * 6 / amax(x) it always fits
            E4M3. x of bfloat16 or float16, not beside activation or rms_weight; always exact.
        fast: allows approximate reciprocals: a few elements and scale factors are then off by one step.
        out: the data's tensor, uint8 or float4_e2m1fn_x2, [..., m, k/2], rows contiguous; made if absent.
        out_scales: the scale factors' tensor, float8_e4m3fn or uint8, contiguous, padding and all; made if
            absent.
        tactic: a kernel's name, or a tactic (`NAME@blocks=2`), instead of the one selected.

    Returns:
        data: uint8 [..., m, k/2], the even element in the low four bits.
        scales: float8_e4m3fn [..., padded rows, padded columns]; the padding is 0.

    Tensors that no kernel can read or write where they lie are copied, and the log says so.
    """
    raise AssertionError("`calls.protocol` writes the body")


@public(_Quantize("mxfp4"))
def quantize_mxfp4(
    x: torch.Tensor,
    *,
    layout: str = "128x4",
    shuffle: bool = False,
    activation: str = "none",
    rms_weight: torch.Tensor | None = None,
    eps: float = 1e-6,
    rows_valid: torch.Tensor | None = None,
    out: torch.Tensor | None = None,
    out_scales: torch.Tensor | None = None,
    tactic: Tactic | str | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Quantises to MXFP4, as `quantize_nvfp4` does to NVFP4: E2M1 in blocks of 32, each with a UE8M0 scale
    factor, 2^(byte - 127), the scales float8_e8m0fnu. There is no global scale. A last block may be of 16."""
    raise AssertionError("`calls.protocol` writes the body")


@public(_Quantize(mxfp8))
def quantize_mxfp8(
    x: torch.Tensor,
    *,
    dtype: torch.dtype = torch.float8_e4m3fn,
    layout: str = "128x4",
    shuffle: bool = False,
    activation: str = "none",
    rms_weight: torch.Tensor | None = None,
    eps: float = 1e-6,
    rows_valid: torch.Tensor | None = None,
    out: torch.Tensor | None = None,
    out_scales: torch.Tensor | None = None,
    tactic: Tactic | str | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Quantises to MXFP8, as `quantize_nvfp4` does to NVFP4: elements of `dtype`, float8_e4m3fn or
    float8_e5m2, [..., m, k], in blocks of 32, each with a UE8M0 scale factor, 2^(byte - 127), the scales
    float8_e8m0fnu. There is no global scale. A last block may be of 16."""
    raise AssertionError("`calls.protocol` writes the body")


@public(_Quantize(fp8_blockwise))
def quantize_fp8_blockwise(
    x: torch.Tensor,
    block: Sequence[int] = (1, 128),
    *,
    scale_type: str = "float32",
    scale_layout: str | None = None,
    activation: str = "none",
    rms_weight: torch.Tensor | None = None,
    eps: float = 1e-6,
    rows_valid: torch.Tensor | None = None,
    out: torch.Tensor | None = None,
    out_scales: torch.Tensor | None = None,
    tactic: Tactic | str | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Quantises, as `quantize_nvfp4` does, to FP8 (E4M3) with a scale for each block of rows x columns, as
    DeepGEMM's kernels read it; exactly `tilewright.reference.quantize_fp8_blockwise`.

    Args:
        block: (1, 128), (128, 1): per channel, or (128, 128).
        scale_type: float32; or (except for (128, 1)) ue8m0: rounded up to powers of two, four packed into an
            int32.
        scale_layout: for float32 scales of (1, 128), m_major (the default: columns at multiples of 4 rows, as
            TMA reads them) or row_major. Other float32 scales are row_major; ue8m0 scales are packed, which
            is m_major too. See `tilewright.blockwise_scales`.
        out_scales: the scales' tensor; an m_major one with memory for its padding
            (`blockwise_scales.allocate`).

    Returns:
        data: float8_e4m3fn [..., m, k].
        scales: [..., m, ceil(k/128)], with strides (1, ld) if m_major; for (128, 128) [..., ceil(m/128),
        ceil(k/128)]; for (128, 1) [..., ceil(m/128), k]; packed: int32 [..., m, ceil(k/512)], in which each
        row of a (128, 128) block has the block's scale.
    """
    raise AssertionError("`calls.protocol` writes the body")


@public(_ReadBack("nvfp4"))
def dequantize_nvfp4(
    data: torch.Tensor,
    scales: torch.Tensor,
    global_scale: float | torch.Tensor | None = None,
    *,
    layout: str = "128x4",
    dtype: torch.dtype | None = None,
    rows_valid: torch.Tensor | None = None,
    out: torch.Tensor | None = None,
    tactic: Tactic | str | None = None,
) -> torch.Tensor:
    """Decodes NVFP4, on the current stream: element * scale factor / global scale.

    The product is exact in FP32; the quotient and the result are rounded to nearest.

    Args:
        data: uint8 or float4_e2m1fn_x2 [m, k/2], or [groups, m, k/2], rows contiguous; k a multiple of 16.
        scales: float8_e4m3fn or uint8, contiguous, padding and all, of any shape.
        global_scale: the global scale of the data, as in `quantize_nvfp4`.
        layout: the layout of the scale factors.
        dtype: the type of the result: bfloat16 (the default), float16, float32.
        rows_valid: int32 [groups] on the device: the rows of each group that are written, from the first.
        out: the result's tensor, of `dtype` if that is given; made if absent.
        tactic: a kernel's name, or a tactic, instead of the one selected.

    Returns:
        [..., m, k].
    """
    raise AssertionError("`calls.protocol` writes the body")


@public(_ReadBack("mxfp4"))
def dequantize_mxfp4(
    data: torch.Tensor,
    scales: torch.Tensor,
    *,
    layout: str = "128x4",
    dtype: torch.dtype | None = None,
    rows_valid: torch.Tensor | None = None,
    out: torch.Tensor | None = None,
    tactic: Tactic | str | None = None,
) -> torch.Tensor:
    """Decodes MXFP4, as `dequantize_nvfp4` does NVFP4: float8_e8m0fnu or uint8 scales, and no global
    scale."""
    raise AssertionError("`calls.protocol` writes the body")


@public(_ReadBack("mxfp8"), like=dequantize_mxfp4)
def dequantize_mxfp8(*_: Any, **__: Any) -> Any:
    """Decodes MXFP8, as `dequantize_nvfp4` does NVFP4: float8_e4m3fn or float8_e5m2 data [..., m, k],
    float8_e8m0fnu or uint8 scales, and no global scale."""


@public(_ReadBack(fp8_blockwise))
def dequantize_fp8_blockwise(
    data: torch.Tensor,
    scales: torch.Tensor,
    block: Sequence[int] = (1, 128),
    *,
    dtype: torch.dtype | None = None,
    rows_valid: torch.Tensor | None = None,
    out: torch.Tensor | None = None,
    tactic: Tactic | str | None = None,
) -> torch.Tensor:
    """Decodes FP8 in blocks, as `dequantize_nvfp4` does NVFP4: float8_e4m3fn data [..., m, k], the `block` of
    the data, and float32 scales that are m_major or row_major by their strides (others are copied), or packed
    (int32). The product with a float32 scale is rounded to nearest."""
    raise AssertionError("`calls.protocol` writes the body")
