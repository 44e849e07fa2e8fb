"""Quantising in plain torch for torch.compile: the exact mathematics of `tilewright.reference`, one kernel.

x is read once: amax of a block and its elements are one reduction and what follows it, and the two halves of
a byte of FP4 are two loads. Scales stay in rows (layout linear), which is less work than Blackwell's layout.
"""

from __future__ import annotations

import torch

BLOCK = {"nvfp4": 16, "mxfp4": 32, "mxfp8": 32, "mxfp8_e5m2": 32, "fp8_1x128": 128}
LARGEST = {"nvfp4": 6.0, "mxfp4": 6.0, "mxfp8": 448.0, "mxfp8_e5m2": 57344.0, "fp8_1x128": 448.0}


def _e2m1(y: torch.Tensor) -> torch.Tensor:
    size = y.abs()
    code = (size > 0.25).to(torch.int32) + (size >= 0.75) + (size > 1.25) + (size >= 1.75)
    code = code + (size > 2.5) + (size >= 3.5) + (size > 5.0)
    code = code | torch.where(torch.signbit(y), 8, 0)
    return torch.where(y.isnan(), 7, code)


def _ue8m0(share: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The byte, rounded up, and 2^(127 - byte)."""
    bits = share.view(torch.int32)
    exponent, mantissa = bits >> 23, bits & 0x7FFFFF
    above = torch.where(exponent == 0, mantissa > 0x400000, mantissa != 0)
    byte = torch.where(share.isnan(), 255, (exponent + above).clamp(max=254))
    power = torch.where(byte == 254, 0x400000, (254 - byte) << 23)
    factor = torch.where(byte == 255, 0x7FFFFFFF, power).view(torch.float32)
    return byte.to(torch.uint8), factor


def _scale(
    amax: torch.Tensor, format: str, global_scale: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor]:
    if format == "nvfp4":
        assert global_scale is not None
        scale = (global_scale * (amax / 6.0)).clamp(max=448.0).to(torch.float8_e4m3fn)
        factor = 1.0 / (scale.to(torch.float32) / global_scale)
        return scale, torch.where(amax == 0, 0.0, factor)
    if format == "fp8_1x128":
        scale = amax.clamp(min=1e-4) / 448.0
        return scale, 1.0 / scale
    byte, factor = _ue8m0(amax / LARGEST[format])
    return byte, torch.where(amax == 0, 0.0, factor)


def quantize(
    x: torch.Tensor, global_scale: torch.Tensor | None, format: str
) -> tuple[torch.Tensor, torch.Tensor]:
    """Data [m, k] (FP4: [m, k/2] bytes) and scales [m, k/block] of x [m, k]; k is a multiple of the block."""
    m, k = x.shape
    block = BLOCK[format]
    if format in ("nvfp4", "mxfp4"):
        pairs = x.view(m, k // block, block // 2, 2)
        even, odd = pairs[..., 0].to(torch.float32), pairs[..., 1].to(torch.float32)
        amax = torch.maximum(even.abs(), odd.abs()).amax(dim=-1)
        scale, factor = _scale(amax, format, global_scale)
        factor = factor[..., None]
        data = (_e2m1(even * factor) | (_e2m1(odd * factor) << 4)).to(torch.uint8)
        return data.view(m, k // 2), scale
    blocks = x.view(m, k // block, block).to(torch.float32)
    scale, factor = _scale(blocks.abs().amax(dim=-1), format, global_scale)
    dtype = torch.float8_e5m2 if format == "mxfp8_e5m2" else torch.float8_e4m3fn
    largest = 57344.0 if dtype == torch.float8_e5m2 else 448.0
    data = (blocks * factor[..., None]).clamp(-largest, largest).to(dtype)
    return data.view(m, k), scale


class Compiled:
    """`quantize` by torch.compile, with IEEE division where Inductor has the choice.

    A kernel for each k, of any m: Triton's configuration is chosen by timing the first matrix that comes, so
    that this one is large.
    """

    CHOSEN_WITH = 2**26  # elements, about

    def __init__(self, format: str) -> None:
        import torch._inductor.config as inductor  # noqa: PLC0415 (slow, and needs Triton)

        for holder, name in (
            (getattr(inductor, "eager_numerics", None), "division_rounding"),
            (inductor, "emulate_divison_rounding"),
            (inductor, "emulate_division_rounding"),
        ):
            if holder is not None and hasattr(holder, name):
                setattr(holder, name, True)
        torch._dynamo.config.automatic_dynamic_shapes = False
        torch._dynamo.config.recompile_limit = 64
        self._function = torch.compile(lambda x, scale: quantize(x, scale, format), fullgraph=True)
        self._chosen: set[int] = set()

    def __call__(self, x: torch.Tensor, scale: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
        k = x.shape[1]
        if k not in self._chosen:
            self._chosen.add(k)
            large = torch.zeros(self.CHOSEN_WITH // k, k, device=x.device).to(x.dtype)
            self._run(large, scale)
        return self._run(x, scale)

    def _run(self, x: torch.Tensor, scale: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
        torch._dynamo.mark_dynamic(x, 0)
        results: tuple[torch.Tensor, torch.Tensor] = self._function(x, scale)
        return results
