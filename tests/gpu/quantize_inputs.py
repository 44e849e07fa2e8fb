"""Inputs of the quantising tests, on the tensors' device.

They hold what rounds differently in a wrong kernel: every boundary between two codes and its neighbours,
every 16-bit pattern, and what is no number.
"""

from __future__ import annotations

import functools
import math

import torch
from quantize_comparison import ELEMENTS

from tilewright import reference
from tilewright.families.quantize.problem import BLOCK
from tilewright.formats.dtypes import dtype_of

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"  # of what is described to run on the host
LARGEST = {"e2m1": 6.0, "e4m3": 448.0, "e5m2": 57344.0}
_DECODE = {
    "e2m1": (reference.decode_e2m1, 8),
    "e4m3": (reference.decode_e4m3, 0x7F),
    "e5m2": (reference.decode_e5m2, 0x7C),
}


def randoms(shape: tuple[int, ...], x: str, seed: int = 0) -> torch.Tensor:
    """Numbers of many magnitudes, special ones among them, blocks of zeros and of tiny ones."""
    generator = torch.Generator(DEVICE).manual_seed(seed)

    def draw(*extents: int) -> torch.Tensor:
        return torch.rand(extents, generator=generator, device=DEVICE)

    value = torch.randn(shape, generator=generator, device=DEVICE)
    value *= torch.exp2((draw(*shape[:-1], 1) * 40 - 20).floor())
    odd = torch.tensor(
        [
            0.0,
            -0.0,
            math.inf,
            -math.inf,
            math.nan,
            2.0**-149,
            -(2.0**-130),
            2.0**-126,
            3.4e38,
            -65504.0,
            2.0**-24,
        ],
        device=DEVICE,
    )
    chosen = odd[(draw(*shape) * len(odd)).long()]
    value = torch.where(draw(*shape) < 0.02 * (draw(*shape[:-1], 1) < 0.5), chosen, value)
    blocks = draw(*shape[:-1], -(-shape[-1] // 16)).repeat_interleave(16, dim=-1)[..., : shape[-1]]
    value = torch.where(blocks < 0.06, value.sign() * 0.0, value)
    value = torch.where(blocks > 0.95, value * 2.0**-120, value)
    return to_type(value, x)


def to_type(value: torch.Tensor, x: str) -> torch.Tensor:
    """Rounded to a type of x; E4M3 saturates."""
    if x == "e4m3":
        return reference.encode_e4m3(value.float())
    return value.to(dtype_of(x))


def neighbours(values: torch.Tensor, x: str) -> torch.Tensor:
    """Numbers that are not negative, as a type has them, with the next below and above."""
    typed = to_type(values.float(), x)
    integer = {1: torch.uint8, 2: torch.int16, 4: torch.int32}[typed.element_size()]
    bits = typed.view(integer).to(torch.int64)
    return torch.cat(
        [(bits + step).clamp(min=0).to(integer).view(typed.dtype).float() for step in (0, -1, 1)]
    )


@functools.cache
def element_boundaries(element: str) -> torch.Tensor:
    """The values of an element's codes, and what is halfway between two."""
    decode, count = _DECODE[element]
    values = decode(torch.arange(count, dtype=torch.uint8, device=DEVICE)).float()
    return torch.cat([values, (values[1:] + values[:-1]) / 2])


@functools.cache
def boundaries(format: str, x: str, width: int) -> torch.Tensor:
    """Rows in which every boundary of elements and of scales comes, with its neighbours, of both signs.

    A block's amax makes its factor a power of two, so that products are exact; that of other blocks is where
    the scale rounds, or next to it.
    """
    if BLOCK[format][1] == 1:  # blocks of rows, turned
        turned = boundaries("fp8_1x128", x, BLOCK[format][0]).mT
        return torch.nn.functional.pad(turned, (0, -turned.shape[1] % 16))
    element = ELEMENTS.get(format, "e4m3")
    largest, block = LARGEST[element], BLOCK[format][1]
    points = neighbours(element_boundaries(element), x)
    points = torch.cat([points, -points])
    points = points[points.abs() <= largest]
    per_block = block - 1
    points = torch.nn.functional.pad(points, (0, -len(points) % per_block)).view(-1, per_block)
    head = torch.full((len(points), 1), largest, device=DEVICE)
    exact = torch.cat([head, points], dim=1)
    powers = (0,) if x == "e4m3" else (0, 5, -9)
    rows = [exact * 2.0**power for power in powers]
    if BLOCK[format][0] > 1:  # all rows of a square share its amax
        return _in_rows(exact, width, x)
    if format == "nvfp4":
        scales = element_boundaries("e4m3")
        amax = torch.cat([neighbours(scales * 6, x), neighbours(scales / 2 * 6, x)])
    else:
        exponents = (-8, 8) if x == "e4m3" else (-30, 12) if x == "f16" else (-126, 120)
        amax = neighbours(2.0 ** torch.arange(*exponents, device=DEVICE).float() * largest, x)
    generator = torch.Generator(DEVICE).manual_seed(len(amax))
    part = torch.rand((len(amax), per_block), generator=generator, device=DEVICE) * 2 - 1
    rows.append(torch.cat([amax[:, None], part * amax[:, None]], dim=1))
    return _in_rows(torch.cat(rows), width, x)


@functools.cache
def patterns(x: str, width: int) -> torch.Tensor:
    """Every pattern of a 16-bit type, or of E4M3 many times, beside each other and shuffled."""
    count = 2**16
    if x == "f32":  # the upper halves of floats, with random lower ones
        low = torch.randint(
            0, 2**16, (count,), device=DEVICE, generator=torch.Generator(DEVICE).manual_seed(1)
        )
        bits = (torch.arange(count, device=DEVICE) << 16) + low
        every = (bits - (bits >= 2**31) * 2**32).to(torch.int32).view(torch.float32)
    elif x == "e4m3":
        every = (torch.arange(count, device=DEVICE) % 256).to(torch.uint8).view(torch.float8_e4m3fn).float()
    else:
        every = torch.arange(-(2**15), 2**15, device=DEVICE).to(torch.int16).view(dtype_of(x)).float()
    order = torch.randperm(count, generator=torch.Generator(DEVICE).manual_seed(2), device=DEVICE)
    return _in_rows(torch.stack([every, every[order]]).view(-1, 16), width, x)


def _in_rows(blocks: torch.Tensor, width: int, x: str) -> torch.Tensor:
    """Blocks one after another in rows of `width` elements, the last one filled up with zeros."""
    flat = blocks.reshape(-1)
    flat = torch.nn.functional.pad(flat, (0, -len(flat) % width))
    return to_type(flat.view(-1, width), x)


def global_scale_of(x: torch.Tensor) -> torch.Tensor:
    """NVFP4's, of what is finite."""
    value = x.float()
    return reference.nvfp4_global_scale(torch.where(value.isfinite(), value.clamp(-1e30, 1e30), 0.0))
