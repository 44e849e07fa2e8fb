"""Inputs and poisoned tensors of the quantising tests, over `tilewright.reference`.

All of it runs on the tensors' device. Inputs hold what rounds differently in a wrong kernel: every boundary
between two codes and its neighbours, every 16-bit pattern, and what is no number.
"""

from __future__ import annotations

import functools
import itertools
import math
from dataclasses import dataclass
from typing import Any

import quantize_comparison as comparison
import torch
from quantize_comparison import ELEMENTS, as_bytes

import tilewright
from tilewright import blockwise_scales, reference
from tilewright.families.quantize.measuring import X_DTYPES
from tilewright.families.quantize.problem import BLOCK, LAYOUTS

POISON = 0xA5
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"  # of what is described to run on the host
LARGEST = {"e2m1": 6.0, "e4m3": 448.0, "e5m2": 57344.0}
_DECODE = {
    "e2m1": (reference.decode_e2m1, 8),
    "e4m3": (reference.decode_e4m3, 0x7F),
    "e5m2": (reference.decode_e5m2, 0x7C),
}
BYTE_FORMATS = ("nvfp4", "mxfp4", "mxfp8", "mxfp8_e5m2")


@dataclass(frozen=True)
class Case:
    """What is asked of a quantising op."""

    format: str
    x: torch.Tensor
    layout: str
    global_scale: Any = None
    rows_valid: torch.Tensor | None = None
    fusion: str = "none"
    weight: torch.Tensor | None = None
    exact: bool = True
    four_over_six: str = "none"

    @property
    def shape(self) -> tuple[int, ...]:
        """[..., m, k]."""
        *batch, m, k = self.x.shape
        return (*batch, m, k // 2 if self.fusion == "silu_mul" else k)

    def quantize(self, **options: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """The op's result; `options` are more of its arguments."""
        if self.rows_valid is not None:
            options["rows_valid"] = self.rows_valid
        if self.fusion == "silu_mul":
            options["activation"] = "silu_mul"
        if self.weight is not None:
            options |= {"rms_weight": self.weight}
        if self.format.startswith("fp8"):
            packed = self.layout == "packed"
            options |= {"scale_type": "ue8m0" if packed else "float32", "scale_layout": self.layout}
            return tilewright.quantize_fp8_blockwise(self.x, BLOCK[self.format], **options)
        options["layout"] = self.layout
        if self.format == "nvfp4":
            return tilewright.quantize_nvfp4(
                self.x, self.global_scale, fast=not self.exact, four_over_six=self.four_over_six, **options
            )
        if self.format == "mxfp4":
            return tilewright.quantize_mxfp4(self.x, **options)
        dtype = torch.float8_e5m2 if self.format == "mxfp8_e5m2" else torch.float8_e4m3fn
        return tilewright.quantize_mxfp8(self.x, dtype=dtype, **options)

    def value(self) -> torch.Tensor:
        """What is quantised."""
        if self.fusion == "silu_mul":
            return reference.silu_mul(self.x)
        return self.x if self.weight is None else reference.rms_norm(self.x, self.weight)

    def read_back(self, data: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
        """float64 of data and scales, by the reference."""
        if self.format.startswith("fp8"):
            return reference.dequantize_fp8_blockwise(data, scales, BLOCK[self.format])
        scale: Any = self.global_scale
        return reference.dequantize(data, scales, self.format, layout=self.layout, global_scale=scale)  # type: ignore[arg-type]

    def wanted(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Data and scales by the reference."""
        value: torch.Tensor = self.value()
        if self.format.startswith("fp8"):
            kind = "ue8m0" if self.layout == "packed" else "float32"
            return reference.quantize_fp8_blockwise(
                value,
                BLOCK[self.format],
                kind,
                self.layout,
                rows_valid=self.rows_valid,  # type: ignore[arg-type]
            )
        return reference.quantize(
            value,
            self.format,
            self.global_scale,
            self.layout,
            rows_valid=self.rows_valid,  # type: ignore[arg-type]
            four_over_six=self.four_over_six,
        )

    def check(self, tactic: str | None = None) -> None:
        """Runs the op into poisoned memory and compares every bit of that: padding, borders, masked rows."""
        Run(self, tactic).check()

    def __str__(self) -> str:
        shape = "x".join(map(str, self.x.shape))
        return (
            f"{shape} {self.x.dtype} -> {self.format} {self.layout}, global scale {_brief(self.global_scale)}"
        )


class Run:
    """A case with poisoned memory for what it makes, and the reference's results."""

    def __init__(self, case: Case, tactic: str | None = None) -> None:
        self.case, self.tactic = case, tactic
        self.wanted, self.wanted_scales = case.wanted()
        self.data, self._border = poisoned(self.wanted)
        self.scales = poisoned_scales(self.wanted_scales, case.layout)

    def run(self) -> None:
        actual, scales = self.case.quantize(out=self.data, out_scales=self.scales, tactic=self.tactic)
        assert actual is self.data
        assert scales is self.scales

    def check(self, when: str = "") -> None:
        """Runs and compares every bit."""
        self.run()
        self.check_bits(when)

    def check_bits(self, when: str = "") -> None:
        """Against the reference, where what was computed is exact."""
        case, expected = self.case, as_bytes(self.wanted)
        if case.rows_valid is not None:
            beyond = ~reference.valid_rows(case.rows_valid, case.shape[-2])
            expected = torch.where(beyond[..., None], POISON, expected)
        comparison.compare(as_bytes(self.data), expected, f"{case} {when}: data")
        comparison.compare(as_bytes(self.scales), as_bytes(self.wanted_scales), f"{case} {when}: scales")
        self.check_surroundings()

    def check_surroundings(self) -> None:
        """Nothing was written behind the data, and zeros where the scales' layout is padded."""
        assert bool((self._border == POISON).all()), f"{self.case}: written beyond the data"
        if self.case.layout in ("m_major", "packed"):
            padding = blockwise_scales.with_padding(self.scales)[..., self.case.shape[-2] :]
            assert not bool(padding.any()), f"{self.case}: the scales' padding is not 0"

    def check_close(self) -> tuple[float, float]:
        """Runs and compares within a step; the shares of elements and of scales that differ."""
        self.run()
        return self.shares_off()

    def shares_off(self) -> tuple[float, float]:
        """As `shares_off` of what was made."""
        self.check_surroundings()
        return comparison.shares_off(self.case, (self.data, self.scales), (self.wanted, self.wanted_scales))


def _brief(scale: Any) -> str:
    return (
        f"of shape {tuple(scale.shape)}"
        if isinstance(scale, torch.Tensor) and scale.numel() > 1
        else str(scale)
    )


def poisoned(like: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """A tensor within a wider one, and what of that lies behind its rows."""
    width = like.shape[-1]
    wide = torch.full((*like.shape[:-1], width + 64), POISON, dtype=torch.uint8, device=like.device)
    return wide.view(like.dtype)[..., :width], wide[..., width:]


def poisoned_scales(like: torch.Tensor, layout: str) -> torch.Tensor:
    """A tensor of the same shape and strides, with its padding."""
    if layout not in ("m_major", "packed"):
        return (
            torch.full(like.shape, -1.5, device=like.device).to(like.dtype)
            if like.element_size() == 4
            else (torch.full(like.shape, POISON, dtype=torch.uint8, device=like.device).view(like.dtype))
        )
    made = blockwise_scales.allocate(like.shape, dtype=like.dtype, device=like.device)
    blockwise_scales.with_padding(made).fill_(99)
    return made


def layouts_of(format: str) -> tuple[str, ...]:
    return LAYOUTS[format]


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
    return value.to(X_DTYPES[x])


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
        every = torch.arange(-(2**15), 2**15, device=DEVICE).to(torch.int16).view(X_DTYPES[x]).float()
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


def combinations() -> list[tuple[str, str]]:
    """Formats with the types of x that they are quantised from."""
    types = {"nvfp4": ("bf16", "f16", "f32", "e4m3")}
    return [(name, x) for name in BLOCK for x in types.get(name, ("bf16", "f16", "f32"))]


def cases(format: str, x: str, shape: tuple[int, ...], seed: int = 0) -> list[Case]:
    """A random input of a shape in every layout, NVFP4 with a global scale."""
    value = randoms(shape, x, seed)
    scale = global_scale_of(value) if format == "nvfp4" else None
    return [Case(format, value, layout, scale) for layout in layouts_of(format)]


def masked(format: str, x: str, seed: int = 0) -> list[Case]:
    """Stacked experts, of which some rows count; NVFP4 with a global scale a row."""
    groups, m, k = 4, 263, 208
    value = randoms((groups, m, k), x, seed)
    valid = torch.tensor([0, m, 129, 5], dtype=torch.int32, device=DEVICE)
    per_row = None
    if format == "nvfp4":
        per_row = (
            torch.rand((groups, m), device=DEVICE, generator=torch.Generator(DEVICE).manual_seed(seed)) * 99
            + 1
        )
    return [Case(format, value, layout, per_row, valid) for layout in layouts_of(format)]


def every_input(format: str, x: str) -> list[Case]:
    """Boundaries and patterns, in the layouts in turn."""
    layouts = itertools.cycle(layouts_of(format))
    made = []
    for value in (
        boundaries(format, x, 512),
        patterns(x, 1040),
        boundaries(format, x, 48),
        patterns(x, 4096),
    ):
        scales = (None, 1.0, 0.37, 1e-30, 3e38, math.inf, math.nan, 0.0) if format == "nvfp4" else (None,)
        made += [Case(format, value, next(layouts), scale) for scale in scales]
    return made
