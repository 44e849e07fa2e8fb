"""Complete calls of the block-scaled products, on kernels of the host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from blockscaled_operands import product

from tilewright.contract.cases import FamilyCalls
from tilewright.families.blockscaled_gemm.problem import Problem

M, N, K = 16, 32, 128


def plain(a: str, b: str) -> Callable[[], dict[str, Any]]:
    def everything() -> dict[str, Any]:
        left, right, left_scales, right_scales = product(M, N, K, a, b)[0]
        given = {"a": left, "b": right, "a_descale": left_scales, "b_descale": right_scales}
        out = torch.zeros(M, N, dtype=torch.bfloat16)
        return given | {"alpha": torch.tensor([0.75]), "out": out}

    return everything


def added() -> dict[str, Any]:
    """With C, of the one format whose host kernels add it."""
    return plain("nvfp4", "nvfp4")() | {"c": torch.ones(M, N, dtype=torch.bfloat16), "beta": -0.5}


def biased() -> dict[str, Any]:
    """With a bias and an activation, of the one type of D whose host kernels have them."""
    given = plain("nvfp4", "nvfp4")() | {"out": torch.zeros(M, N), "out_dtype": torch.float32}
    return given | {"bias": torch.ones(N), "activation": "silu"}


def quantized(a: str, b: str, d: torch.dtype) -> Callable[[], dict[str, Any]]:
    def quantized() -> dict[str, Any]:
        width = N // 2 if d == torch.float4_e2m1fn_x2 else N
        return plain(a, b)() | {
            "out_dtype": d,
            "out": torch.zeros(M, width, dtype=torch.uint8).view(d),
            "out_descale": torch.zeros(128, 4, dtype=torch.uint8),
            "out_global_scale": torch.tensor([2.0]),
        }

    return quantized


CONTRACT = FamilyCalls(
    "blockscaled_gemm",
    {
        "mm_nvfp4": (
            plain("nvfp4", "nvfp4"),
            added,
            biased,
            quantized("nvfp4", "nvfp4", torch.float4_e2m1fn_x2),
        ),
        "mm_mxfp4": (plain("mxfp4", "mxfp4"),),
        "mm_mxfp8": (plain("mxfp8", "mxfp8"), quantized("mxfp8", "mxfp8", torch.float8_e4m3fn)),
        "mm_mxfp8_mxfp4": (plain("mxfp8", "mxfp4"),),
    },
    kernels="blackwell",
    measured=(
        Problem(16, 32, 128, c=True),
        Problem(16, 32, 128, d="f32", c=True, bias=True, activation="gelu"),
        Problem(16, 32, 128, a="mxfp8", b="mxfp8", d="mxfp8"),
    ),
)
