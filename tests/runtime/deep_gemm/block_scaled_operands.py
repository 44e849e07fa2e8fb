"""Operands of block-scaled products, and modules of kernels that multiply them as if on a B200."""

from __future__ import annotations

from typing import Any

import torch
from host_modules import make_blockscaled_row
from table_rows import table_row

from tilewright import blockwise_scales, reference

_ATOMS = {"arch": "sm_100f", "pdl": True, "writes": "128x4"}
_MXFP8, _MXFP4 = {"a": "mxfp8", "b": "mxfp8"}, {"a": "mxfp4", "b": "mxfp4"}
MODULES: dict[str, tuple[str, list[dict[str, Any]], str]] = {
    "blackwell_products": (
        "blockscaled_gemm",
        [
            make_blockscaled_row("host_mxfp8", **_MXFP8),
            make_blockscaled_row("host_mxfp8_c", **_MXFP8, c="same"),
            make_blockscaled_row("host_mxfp8_f32", **_MXFP8, d="f32", c="same"),
            make_blockscaled_row("host_mxfp4", **_MXFP4),
            make_blockscaled_row("host_mxfp4_f32", **_MXFP4, d="f32"),
            make_blockscaled_row("host_mxfp8_mxfp4", a="mxfp8", b="mxfp4"),
            make_blockscaled_row("host_mxfp4_mxfp8", a="mxfp4", b="mxfp8"),
        ],
        "host_blockscaled_kernels.cc",
    ),
    "blackwell_scales": (
        "scale_columns",
        [table_row("host_scale_atoms", _ATOMS, {"threads": 128, "alignment": {"out": 16}})],
        "host_scale_columns_kernels.cc",
    ),
    "blackwell_transpositions": (
        "transpose_fp8",
        [table_row("host_transpose_fp8", {"arch": "sm_100f", "pdl": True}, {"threads": 256})],
        "host_transpose_fp8_kernels.cc",
    ),
}


def exponents(*shape: int, seed: int) -> torch.Tensor:
    return torch.randint(-6, 7, shape, generator=torch.Generator().manual_seed(seed)).float().exp2()


class Operand:
    """A matrix [..., rows, k] of FP8 or FP4 with scales for `block`, and what it stands for."""

    def __init__(
        self, *shape: int, block: tuple[int, int] = (1, 128), fp4: bool = False, seed: int = 0
    ) -> None:
        *batch, rows, k = shape
        generator = torch.Generator().manual_seed(seed)
        if fp4:
            self.data = torch.randint(-128, 128, (*batch, rows, k // 2), generator=generator).to(torch.int8)
            codes = self.data.view(torch.uint8)
            values = reference.decode_e2m1(torch.stack((codes & 15, codes >> 4), dim=-1).flatten(-2)).double()
        else:
            self.data = torch.randn(shape, generator=generator).to(torch.float8_e4m3fn)
            values = self.data.double()
        down, across = block
        self.scales = exponents(*batch, -(-rows // down), -(-k // across), seed=seed + 1)
        wide = self.scales.repeat_interleave(down, -2)[..., :rows, :]
        self.values = values * wide.repeat_interleave(across, -1)[..., :k]

    @property
    def pair(self) -> tuple[torch.Tensor, torch.Tensor]:
        return self.data, self.scales

    @property
    def packed(self) -> tuple[torch.Tensor, torch.Tensor]:
        """With scales in words, as DeepGEMM packs them."""
        return self.data, blockwise_scales.pack((self.scales.view(torch.int32) >> 23).to(torch.uint8))


def close(result: torch.Tensor, expected: torch.Tensor) -> None:
    rtol = 2e-2 if result.dtype == torch.bfloat16 else 1e-6
    torch.testing.assert_close(result.double(), expected, rtol=rtol, atol=rtol * float(expected.abs().max()))
