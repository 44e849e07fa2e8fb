"""Complete calls of `packed_fp8_gemm`, on kernels of the host."""

from __future__ import annotations

from typing import Any

import torch

from tilewright.contract.cases import FamilyCalls
from tilewright.families.mixed_fp8_gemm.problem import Problem
from tilewright.families.mixed_gemm.measuring import random_weight
from tilewright.formats.dtypes import dtype_of


def matrix(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def call(problem: Problem) -> dict[str, Any]:
    packed = random_weight(problem.dense, torch.Generator().manual_seed(3))
    d = dtype_of(problem.d)
    return {
        "a": matrix(problem.m, problem.k).to(torch.float8_e4m3fn), "weight": packed.weight,
        "scale": packed.scale, "n": problem.n, "weight_format": problem.weight_format, "alpha": 0.5,
        "a_scale": matrix(problem.m, seed=2),
        "fast_accum": problem.fast_accum, "bias": matrix(problem.n, seed=1).to(d), "activation": "gelu",
        "out": torch.zeros(problem.m, problem.n, dtype=d), "out_dtype": d,
    }  # fmt: skip


def int4() -> dict[str, Any]:
    return call(Problem(6, 72, 160))


def int4_with_zeros() -> dict[str, Any]:
    return call(Problem(5, 16, 96, d="f16", weight_format="int4_zp_g32"))


def fast() -> dict[str, Any]:
    return call(Problem(3, 8, 64, weight_format="mxfp4", fast_accum=True))


def mxfp4() -> dict[str, Any]:
    return call(Problem(3, 8, 32, weight_format="mxfp4")) | {"activation": "none"}


CONTRACT = FamilyCalls(
    "mixed_fp8_gemm",
    {"packed_fp8_gemm": (int4, int4_with_zeros, mxfp4, fast)},
    kernels="fp8_host",
    measured=(Problem(4, 72, 160, a_scale=True, bias=True), Problem(4, 8, 64, weight_format="mxfp4")),
)
