"""Complete calls of the ops that quantise and that read back, on kernels of the host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

import tilewright
from tilewright import blockwise_scales
from tilewright.contract.cases import FamilyCalls
from tilewright.families.quantize.problem import Problem

GROUPS, M, K = 2, 40, 256


def x() -> torch.Tensor:
    return torch.randn(GROUPS, M, K, generator=torch.Generator().manual_seed(0)).bfloat16()


def per_row() -> torch.Tensor:
    return torch.rand(GROUPS, M, generator=torch.Generator().manual_seed(1)) * 100 + 1


def rows_valid() -> torch.Tensor:
    return torch.tensor([M, M], dtype=torch.int32)


def to(data: torch.dtype, block: int, **options: Any) -> Callable[[], dict[str, Any]]:
    """Into bytes, with scale factors in the 128x4 layout."""

    def grouped() -> dict[str, Any]:
        width = K // 2 if data == torch.uint8 else K
        out = torch.zeros(GROUPS, M, width, dtype=torch.uint8)
        scales = torch.zeros(GROUPS, 128, K // block, dtype=torch.uint8)
        valid = {} if "rms_weight" in options else {"rows_valid": rows_valid()}
        return {"x": x(), "out": out, "out_scales": scales, **valid, **options}

    return grouped


def nvfp4() -> dict[str, Any]:
    return to(torch.uint8, 16)() | {"global_scale": per_row()}


def weighted() -> dict[str, Any]:
    return to(torch.uint8, 16)() | {"rms_weight": x()[0, 0].contiguous(), "eps": 0.5}


def rows() -> dict[str, Any]:
    scales = blockwise_scales.allocate((GROUPS, M, K // 128), dtype=torch.float32, device="cpu").zero_()
    out = torch.zeros(GROUPS, M, K, dtype=torch.uint8)
    return {"x": x(), "out": out, "out_scales": scales, "rows_valid": rows_valid()}


def squares() -> dict[str, Any]:
    scales = torch.zeros(GROUPS, 1, K // 128)
    return {"x": x(), "block": (128, 128), "out": torch.zeros(GROUPS, M, K, dtype=torch.uint8),
            "out_scales": scales}  # fmt: skip


def back(op: str, **options: Any) -> Callable[[], dict[str, Any]]:
    def back() -> dict[str, Any]:
        data, scales = getattr(tilewright, op.removeprefix("de"))(x(), **options)
        out = torch.zeros(GROUPS, M, K, dtype=torch.bfloat16)
        more = {"rows_valid": rows_valid()}
        return {"data": data, "scales": scales, "out": out, **more, **options}

    return back


FP8 = torch.float8_e4m3fn
CONTRACT = FamilyCalls(
    "quantize",
    {
        "quantize_nvfp4": (nvfp4, weighted),
        "quantize_mxfp4": (to(torch.uint8, 32),),
        "quantize_mxfp8": (to(FP8, 32), to(torch.float8_e5m2, 32, dtype=torch.float8_e5m2)),
        "quantize_fp8_blockwise": (rows, squares),
        "dequantize_nvfp4": (back("dequantize_nvfp4", global_scale=3.0),),
        "dequantize_mxfp4": (back("dequantize_mxfp4"),),
        "dequantize_mxfp8": (back("dequantize_mxfp8"),),
        "dequantize_fp8_blockwise": (
            back("dequantize_fp8_blockwise"),
            back("dequantize_fp8_blockwise", block=(128, 128)),
        ),
    },
    kernels="hopper",
    measured=(
        Problem(300, 256, global_scale="row"),
        Problem(40, 256, 2, format="fp8_1x128", layout="m_major"),
        Problem(40, 256, 2, format="mxfp8", direction="dequantize"),
    ),
)
