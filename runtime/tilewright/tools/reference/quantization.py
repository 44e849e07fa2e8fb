"""Quantising a matrix into a block-scaled format, and reading it back.

Quantising is defined by these FP32 operations, each rounded to nearest as IEEE 754 has it and none fused.
With amax the largest magnitude in a block of a row, and gs the global scale (of NVFP4 only):

    NVFP4:         scale = e4m3(gs * (amax / 6)),    factor = 1 / (scale / gs)
    MXFP4, MXFP8:  scale = ue8m0(amax / max),        factor = 2^(127 - byte) = 1 / scale
    data = element(x * factor), factor = 0 where amax = 0

With four_over_six, NVFP4's scale is that or e4m3(gs * (amax / 4)), whichever has the smaller error: the
sum of (element * scale - gs * x)^2 (mse) or of its magnitude (mae), in the order of k. The first if they are
equal or not comparable.

`max` is the element's largest value (6, 448, 57344); `codes` says how each type rounds. Hence:

- If k is not a multiple of the block, the last block of a row has fewer elements.
- Zeros keep their sign in the data.
- A NaN makes its block's scale NaN (0x7F, 0xFF), and the block NaN when it is read back; data are +6 or NaN.
- An infinity saturates its block's scale (448, 2^127) and its own element; others of the block are
  quantised with that scale, the NaN ones as above.
- An amax so small that NVFP4's scale rounds to 0 has an infinite factor: data saturate (+6 for zeros, as
  0 * infinity is NaN), and the block is 0 when it is read back.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from tilewright.errors import ArgumentError
from tilewright.scale_factors import LayoutName, check_shape, columns, swizzle, unswizzle
from tilewright.tools.reference import codes
from tilewright.tools.reference.formats import Format, find_format

_E2M1_MAX = codes.E2M1_VALUES[-1]
_ENCODE = {"e4m3": codes.encode_e4m3, "e5m2": codes.encode_e5m2, "ue8m0": codes.encode_ue8m0}
_DECODE = {"e4m3": codes.decode_e4m3, "e5m2": codes.decode_e5m2, "ue8m0": codes.decode_ue8m0}


def nvfp4_global_scale(x: torch.Tensor, dim: int | tuple[int, ...] | None = None) -> torch.Tensor:
    """NVFP4's global scale 448 * 6 / amax, in float32: it makes the largest block scale 448.

    The scale of the whole tensor (a scalar), or scales over `dim`: with dim=-1 one for each row, as
    `quantize` takes them.
    1 where amax is 0, and the largest float32 where the quotient overflows. An infinity in `x` makes it 0, a
    NaN makes it NaN: either way nothing but NaN is read back.
    """
    size = codes.as_float32("x", x).abs()
    if size.numel() == 0:
        return torch.ones((), device=x.device) if dim is None else torch.ones_like(size.sum(dim=dim))
    amax = size.amax() if dim is None else size.amax(dim=dim)
    # A tensor divided by a tensor: torch turns other quotients into products with a rounded reciprocal.
    scale = torch.full_like(amax, codes.E4M3_MAX * _E2M1_MAX) / amax
    return torch.where(amax == 0, 1.0, scale.clamp(max=torch.finfo(torch.float32).max))


def quantize(
    x: torch.Tensor,
    format: str | Format,
    global_scale: float | torch.Tensor | None = None,
    layout: LayoutName = "128x4",
    *,
    rows_valid: torch.Tensor | None = None,
    four_over_six: str = "none",
) -> tuple[torch.Tensor, torch.Tensor]:
    """Quantises a matrix [..., m, k] of BF16, FP16, FP32 or FP8 as the head of this module defines.

    `global_scale` (NVFP4) is one number, or one for each row ([..., m]); None is 1. The matrix that is read
    back approximates `x` with any global scale, best with `nvfp4_global_scale(x)`. Rows from
    `rows_valid` on (int32 [...], one number for each matrix) are taken as zeros: their scales are 0.
    `four_over_six` (NVFP4): none, or mse or mae, which choose a scale for each block.

    Returns:
        data: FP4 as uint8 [..., m, ceil(k/2)], low half first, the half byte after an odd k 0; FP8 as
            float8_e4m3fn or float8_e5m2 [..., m, k]. k is not padded.
        scales: float8_e4m3fn or float8_e8m0fnu [..., padded m, padded columns], see `scale_factors`.

    Raises:
        ArgumentError, ArgumentTypeError: of the shape, dtype, format, layout or global scale.
    """
    kind = find_format(format)
    value = codes.as_float32("x", x)
    if value.ndim < 2:
        raise ArgumentError("x", f"shape {tuple(x.shape)}, expected [..., m, k]")
    k = value.shape[-1]
    if rows_valid is not None:
        value = torch.where(valid_rows(rows_valid, value.shape[-2])[..., None], value, 0.0)
    blocks = blocks_of(value, kind.block)
    amax = blocks.abs().amax(dim=-1)  # NaN if one is
    scale, factor = _scales(amax, kind, global_scale)
    if four_over_six != "none":
        scale, factor = _better(blocks, amax, kind, global_scale, four_over_six)
    scaled = (blocks * factor[..., None]).flatten(-2)[..., :k]
    if kind.element == "e2m1":
        data = codes.pack_e2m1(codes.encode_e2m1(scaled))
    else:
        data = _ENCODE[kind.element](scaled)
    return data, swizzle(scale, layout)


def dequantize(
    data: torch.Tensor,
    scales: torch.Tensor,
    format: str | Format,
    k: int | None = None,
    *,
    global_scale: float | torch.Tensor | None = None,
    layout: LayoutName = "128x4",
    dtype: torch.dtype = torch.float64,
) -> torch.Tensor:
    """The matrix [..., m, k] that `data` and `scales` stand for: element * scale / global scale.

    Takes what `quantize` returns, or the same bytes as another 1-byte dtype (uint8, float4_e2m1fn_x2), the
    scales also flat. Exact in float64 except for the division by the global scale; the result is then rounded
    to `dtype`. `k` (default: all of the data) says whether the last half byte of an FP4 row is an element.

    Raises:
        ArgumentError, ArgumentTypeError: of shapes (scales without their padding, say), dtypes, k, format.
    """
    kind = find_format(format)
    value = Stored(data, scales, kind, k, layout).values()
    if global_scale is not None:
        value = value / _global_scale(global_scale, kind, value).double()
    return value.to(dtype)


@dataclass(frozen=True, slots=True)
class Stored:
    """A quantised matrix in memory, with the caller's names of its tensors."""

    data: torch.Tensor  # [..., rows, bytes of k]
    scales: torch.Tensor
    format: Format
    k: int | None = None
    layout: LayoutName = "128x4"
    data_name: str = "data"
    scales_name: str = "scales"

    def values(self) -> torch.Tensor:
        """Element * scale in float64, [..., rows, k]: exact."""
        raw = codes.bytes_of(self.data_name, self.data)
        if raw.ndim < 2:
            raise ArgumentError(self.data_name, f"shape {tuple(raw.shape)}, expected [..., rows, bytes of k]")
        k = self._elements(raw.shape[-1])
        if self.format.element == "e2m1":
            elements = codes.decode_e2m1(codes.unpack_e2m1(raw, k))
        else:
            elements = _DECODE[self.format.element](raw)
        scales = self._scales(tuple(raw.shape[:-1]), k)
        return elements * scales.repeat_interleave(self.format.block, dim=-1)[..., :k]

    def _elements(self, width: int) -> int:
        k = width * 8 // self.format.bits if self.k is None else self.k
        if self.format.width(k) != width:
            expected = f"the elements of a row of {width} B of {self.format.name} ({self.data_name})"
            raise ArgumentError("k", f"{k}, expected {expected}")
        return k

    def _scales(self, shape: tuple[int, ...], k: int) -> torch.Tensor:
        carried = codes.bytes_of(self.scales_name, self.scales)
        *batch, rows = shape
        block, name = self.format.block, self.scales_name
        actual = check_shape(name, carried.shape, rows=rows, k=k, block=block, layout=self.layout)
        if actual != tuple(batch):
            raise ArgumentError(name, f"batch {actual}, expected {tuple(batch)} as of {self.data_name}")
        return _DECODE[self.format.scale](unswizzle(carried, rows, k, block, self.layout))


def blocks_of(value: torch.Tensor, block: int) -> torch.Tensor:
    """[..., m, k] as [..., m, ceil(k/block), block]; the zeros after k change no block's amax."""
    count = columns(value.shape[-1], block)
    wide = value.new_zeros((*value.shape[:-1], count * block))
    wide[..., : value.shape[-1]] = value
    return wide.reshape(*value.shape[:-1], count, block)


def valid_rows(rows_valid: torch.Tensor, rows: int) -> torch.Tensor:
    """Whether each row of each matrix is below the matrix's number in `rows_valid` [...]: bool [...,
    rows]."""
    return torch.arange(rows, device=rows_valid.device) < rows_valid[..., None]


def _better(
    blocks: torch.Tensor,
    amax: torch.Tensor,
    kind: Format,
    global_scale: float | torch.Tensor | None,
    error: str,
) -> tuple[torch.Tensor, torch.Tensor]:
    """As `_scales`, of the two of which one makes the amax 6 and the other 4, that with the smaller error."""
    if kind.scale != "e4m3" or error not in ("mse", "mae"):
        raise ArgumentError(
            "four_over_six", f"{error!r} for {kind.name}; expected None, or 'mse' or 'mae' for nvfp4"
        )
    gs = _global_scale(global_scale, kind, amax)

    def error_of(scale: torch.Tensor, factor: torch.Tensor) -> torch.Tensor:
        elements = codes.decode_e2m1(codes.encode_e2m1(blocks * factor[..., None])).to(torch.float32)
        read = elements * codes.decode_e4m3(scale, torch.float32)[..., None]
        off = read - blocks * (gs if gs.ndim == 0 else gs[..., None])
        terms = off * off if error == "mse" else off.abs()
        total = torch.zeros_like(amax)
        for index in range(terms.shape[-1]):
            total = total + terms[..., index]
        return total

    six, four = (_scales(amax, kind, global_scale, largest) for largest in (_E2M1_MAX, 4.0))
    smaller = error_of(*four) < error_of(*six)
    return torch.where(smaller, four[0], six[0]), torch.where(smaller, four[1], six[1])


def _scales(
    amax: torch.Tensor, kind: Format, global_scale: float | torch.Tensor | None, largest: float = 0.0
) -> tuple[torch.Tensor, torch.Tensor]:
    """The scale of each block, and the float32 factor that its elements are multiplied by. The amax becomes
    `largest`, or if that is 0 the element's largest value."""
    gs = _global_scale(global_scale, kind, amax)
    share = amax / torch.full_like(amax, largest or kind.max)  # see nvfp4_global_scale: no tensor / number
    if kind.scale == "e4m3":
        scale = codes.encode_e4m3(gs * share)
        factor = torch.ones_like(amax) / (codes.decode_e4m3(scale, torch.float32) / gs)
    else:
        scale = codes.encode_ue8m0(share)
        factor = (1.0 / codes.decode_ue8m0(scale)).to(torch.float32)  # a power of two: exact
    return scale, torch.where(amax == 0, 0.0, factor)


def _global_scale(value: float | torch.Tensor | None, kind: Format, like: torch.Tensor) -> torch.Tensor:
    """The global scale in float32 on the device of `like` [..., m, columns], in a shape that broadcasts to
    it."""
    if value is None:
        return torch.ones((), device=like.device)
    if kind.scale != "e4m3":
        raise ArgumentError("global_scale", f"given, expected None: {kind.name} has none")
    scale = torch.as_tensor(value, dtype=torch.float32).to(like.device)
    if scale.numel() == 1:
        return scale.reshape(())
    if tuple(scale.shape) != tuple(like.shape[:-1]):
        rows = tuple(like.shape[:-1])
        raise ArgumentError("global_scale", f"shape {tuple(scale.shape)}, expected one number or {rows}")
    return scale[..., None]
