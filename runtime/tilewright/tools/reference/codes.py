"""Values and codes of E2M1, E4M3, E5M2 and UE8M0.

Encoding is that of the `cvt...satfinite` instructions of sm_100a (PTX ISA, "cvt"): E2M1, E4M3 and E5M2
round to nearest even, UE8M0 rounds up; what is too large, infinities included, becomes the largest finite
value; NaN becomes NaN where the type has one and +6 in E2M1. Subnormals are neither flushed on input nor on
output. Decoding is exact.
"""

from __future__ import annotations

import math

import torch

from tilewright.errors import ArgumentError, ArgumentTypeError

E2M1_VALUES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)  # of codes 0 to 7; bit 3 is the sign
E4M3_MAX = 448.0
E5M2_MAX = 57344.0
# All that float32 holds exactly. Rounding float64 on the way would be a second rounding.
_INPUTS = (torch.float32, torch.bfloat16, torch.float16, torch.float8_e4m3fn, torch.float8_e5m2)
_NAN_BYTE = 0x7F  # of E4M3 and of E5M2, as the hardware writes it
_UE8M0_NAN = 0xFF
_UE8M0_MAX = 0xFE


def as_float32(argument: str, x: torch.Tensor) -> torch.Tensor:
    """`x` in float32, exactly. Raises ArgumentTypeError, which names `argument`, for other dtypes."""
    if x.dtype not in _INPUTS:
        names = ", ".join(str(dtype).removeprefix("torch.") for dtype in _INPUTS)
        raise ArgumentTypeError(argument, f"{x.dtype}, expected one of {names}")
    return x.to(torch.float32)


def bytes_of(argument: str, data: torch.Tensor) -> torch.Tensor:
    """A tensor of any 1-byte dtype as uint8 (a view)."""
    if data.element_size() != 1:
        raise ArgumentTypeError(argument, f"{data.dtype}, expected a dtype of one byte")
    return data.view(torch.uint8)


def encode_e2m1(x: torch.Tensor) -> torch.Tensor:
    """E2M1 codes 0 to 15, one to a byte (uint8), of values; rounds to nearest even, saturates at +-6.

    Boundaries: <=.25 -> 0, <.75 -> .5, <=1.25 -> 1, <1.75 -> 1.5, <=2.5 -> 2, <3.5 -> 3, <=5 -> 4, else 6.
    Zeros and what rounds to zero keep their sign; NaN is +6.
    """
    value = as_float32("x", x)
    size = value.abs()
    code = torch.zeros_like(size, dtype=torch.uint8)
    # A value halfway between two goes to the one whose code is even.
    for even, boundary in enumerate((0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0)):
        code += (size >= boundary) if even % 2 else (size > boundary)
    code |= torch.signbit(value).to(torch.uint8) << 3
    return torch.where(value.isnan(), 7, code)


def decode_e2m1(codes: torch.Tensor, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    """Values of E2M1 codes, one to a byte; bits above the low four are not looked at."""
    values = [*E2M1_VALUES, *(-value for value in E2M1_VALUES)]
    table = torch.tensor(values, dtype=dtype, device=codes.device)
    return table[(bytes_of("codes", codes) & 15).long()]


def pack_e2m1(codes: torch.Tensor, dtype: torch.dtype = torch.uint8) -> torch.Tensor:
    """E2M1 codes [..., k] as bytes [..., ceil(k/2)], the even index in the low four bits.

    The half byte after an odd k is 0. `dtype` is uint8 or, the same bytes, torch.float4_e2m1fn_x2.
    """
    low = bytes_of("codes", codes)[..., 0::2] & 15
    high = torch.zeros_like(low)
    high[..., : codes.shape[-1] // 2] = bytes_of("codes", codes)[..., 1::2]
    return (low | (high << 4)).view(dtype)


def unpack_e2m1(data: torch.Tensor, k: int | None = None) -> torch.Tensor:
    """The codes [..., k] (uint8) in bytes [..., ceil(k/2)] of uint8 or float4_e2m1fn_x2; None: an even k."""
    pairs = bytes_of("data", data)
    codes = torch.stack((pairs & 15, pairs >> 4), dim=-1).flatten(-2)
    if k is None:
        return codes
    if -(-k // 2) != pairs.shape[-1]:
        raise ArgumentError(
            "k", f"{k}, expected {2 * pairs.shape[-1]} or one less: rows of {pairs.shape[-1]} B"
        )
    return codes[..., :k]


def encode_e4m3(x: torch.Tensor) -> torch.Tensor:
    """float8_e4m3fn of values: to nearest even, saturates at +-448, NaN is 0x7F."""
    return _encode_float8(x, torch.float8_e4m3fn, E4M3_MAX)


def encode_e5m2(x: torch.Tensor) -> torch.Tensor:
    """float8_e5m2 of values: to nearest even, saturates at +-57344, NaN is 0x7F."""
    return _encode_float8(x, torch.float8_e5m2, E5M2_MAX)


def decode_e4m3(codes: torch.Tensor, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    """Values of E4M3 codes (float8_e4m3fn, or any 1-byte dtype that carries them)."""
    return bytes_of("codes", codes).view(torch.float8_e4m3fn).to(torch.float32).to(dtype)


def decode_e5m2(codes: torch.Tensor, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    """Values of E5M2 codes (float8_e5m2, or any 1-byte dtype that carries them)."""
    return bytes_of("codes", codes).view(torch.float8_e5m2).to(torch.float32).to(dtype)


def encode_ue8m0(x: torch.Tensor) -> torch.Tensor:
    """float8_e8m0fnu of values: the smallest power of two that is not less, from 2^-127 (byte 0) on.

    x <= 2^-127, 0 included, gives byte 0 and a larger subnormal byte 1. Beyond 2^127 it saturates (0xFE),
    NaN is 0xFF. This is `cvt.rp.satfinite`, not torch's conversion, which rounds to nearest.

    Raises:
        ArgumentError: a value is negative: no scale is.
    """
    value = as_float32("x", x)
    if bool((value < 0).any()):
        raise ArgumentError("x", "a negative value, expected 0 or more: UE8M0 has no sign")
    bits = value.abs().view(torch.int32)
    exponent, mantissa = bits >> 23, bits & 0x7FFFFF
    # 2^-127, half of the smallest normal number, is a subnormal: mantissa 0x400000.
    above = torch.where(exponent == 0, mantissa > 0x400000, mantissa != 0)
    code = (exponent + above).clamp(max=_UE8M0_MAX)
    code = torch.where(value.isnan(), _UE8M0_NAN, code)
    return code.to(torch.uint8).view(torch.float8_e8m0fnu)


def decode_mx_words(data: torch.Tensor, words: torch.Tensor, block: int = 32) -> torch.Tensor:
    """float64 [..., n] of packed E2M1 [..., n/2] with an int32 word for each row [...]: the exponents (UE8M0)
    of its blocks, the first in the lowest byte; bytes beyond the last block are not read."""
    values = decode_e2m1(unpack_e2m1(data))
    scales = decode_ue8m0(words.unsqueeze(-1).contiguous().view(torch.uint8))
    return values * scales.repeat_interleave(block, dim=-1)[..., : values.shape[-1]]


def decode_ue8m0(codes: torch.Tensor, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    """2^(byte - 127) of UE8M0 codes (float8_e8m0fnu, or any 1-byte dtype that carries them); 255 is NaN."""
    values = [*(2.0 ** (byte - 127) for byte in range(_UE8M0_NAN)), math.nan]
    table = torch.tensor(values, dtype=torch.float64, device=codes.device)
    return table[bytes_of("codes", codes).long()].to(dtype)


def _encode_float8(x: torch.Tensor, dtype: torch.dtype, largest: float) -> torch.Tensor:
    """Clamps first: whether torch's own conversion saturates differs between types and releases."""
    value = as_float32("x", x)
    code = value.clamp(-largest, largest).to(dtype).view(torch.uint8)
    return torch.where(value.isnan(), _NAN_BYTE, code).view(dtype)
