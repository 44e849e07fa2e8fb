"""Cases and poisoned tensors of the quantising tests, over `tilewright.reference`, on the tensors' device."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any

import quantize_comparison as comparison
import quantize_inputs as inputs
import torch
from quantize_comparison import as_bytes

import tilewright
from tilewright import blockwise_scales, reference
from tilewright.families.quantize.problem import BLOCK, LAYOUTS

POISON = 0xA5
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


def combinations() -> list[tuple[str, str]]:
    """Formats with the types of x that they are quantised from."""
    types = {"nvfp4": ("bf16", "f16", "f32", "e4m3")}
    return [(name, x) for name in BLOCK for x in types.get(name, ("bf16", "f16", "f32"))]


def cases(format: str, x: str, shape: tuple[int, ...], seed: int = 0) -> list[Case]:
    """A random input of a shape in every layout, NVFP4 with a global scale."""
    value = inputs.randoms(shape, x, seed)
    scale = inputs.global_scale_of(value) if format == "nvfp4" else None
    return [Case(format, value, layout, scale) for layout in layouts_of(format)]


def masked(format: str, x: str, seed: int = 0) -> list[Case]:
    """Stacked experts, of which some rows count; NVFP4 with a global scale a row."""
    groups, m, k = 4, 263, 208
    value = inputs.randoms((groups, m, k), x, seed)
    valid = torch.tensor([0, m, 129, 5], dtype=torch.int32, device=inputs.DEVICE)
    per_row = None
    if format == "nvfp4":
        per_row = (
            torch.rand(
                (groups, m), device=inputs.DEVICE, generator=torch.Generator(inputs.DEVICE).manual_seed(seed)
            )
            * 99
            + 1
        )
    return [Case(format, value, layout, per_row, valid) for layout in layouts_of(format)]


def every_input(format: str, x: str) -> list[Case]:
    """Boundaries and patterns, in the layouts in turn."""
    layouts = itertools.cycle(layouts_of(format))
    made = []
    for value in (
        inputs.boundaries(format, x, 512),
        inputs.patterns(x, 1040),
        inputs.boundaries(format, x, 48),
        inputs.patterns(x, 4096),
    ):
        scales = (None, 1.0, 0.37, 1e-30, 3e38, math.inf, math.nan, 0.0) if format == "nvfp4" else (None,)
        made += [Case(format, value, next(layouts), scale) for scale in scales]
    return made
