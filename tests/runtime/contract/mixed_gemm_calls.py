"""Complete calls of `packed_gemm`, on kernels of the host."""

from __future__ import annotations

from typing import Any

import torch

from tilewright.contract.cases import FamilyCalls
from tilewright.families.mixed_gemm.measuring import random_weight
from tilewright.families.mixed_gemm.problem import Problem
from tilewright.formats.dtypes import dtype_of


def matrix(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def call(a: torch.dtype, problem: Problem) -> dict[str, Any]:
    packed, d = random_weight(problem, torch.Generator().manual_seed(3)), dtype_of(problem.d)
    activation = problem.activation if problem.gated else "gelu"
    return {
        "a": matrix(problem.m, problem.k).to(a), "weight": packed.weight, "scale": packed.scale,
        "n": problem.n, "weight_format": problem.weight_format, "alpha": 0.5,
        "bias": matrix(problem.n, seed=1).to(d), "activation": activation,
        "out": torch.zeros(problem.m, problem.d_columns, dtype=d), "out_dtype": d,
    }  # fmt: skip


def int4() -> dict[str, Any]:
    return call(torch.bfloat16, Problem(6, 72, 160))


def int4_to_f32() -> dict[str, Any]:
    return call(torch.bfloat16, Problem(6, 72, 160, d="f32"))


def int4_with_zeros() -> dict[str, Any]:
    return call(torch.float16, Problem(5, 16, 96, a="f16", d="f16", weight_format="int4_zp_g32"))


def nvfp4() -> dict[str, Any]:
    return call(torch.bfloat16, Problem(3, 8, 32, weight_format="nvfp4")) | {"activation": "none"}


def gated_int4() -> dict[str, Any]:
    return call(torch.bfloat16, Problem(6, 80, 160, activation="silu_mul"))


def gated_int4_with_zeros() -> dict[str, Any]:
    kind = {"a": "f16", "d": "f16", "weight_format": "int4_zp_g32"}
    return call(torch.float16, Problem(5, 16, 96, **kind, activation="silu_mul"))


def e4m3() -> dict[str, Any]:
    return call(torch.float16, Problem(3, 72, 160, a="f16", d="f16", weight_format="e4m3_g128"))


PLAIN = (int4, int4_to_f32, int4_with_zeros, nvfp4, e4m3)
GATED = (gated_int4, gated_int4_with_zeros)
CONTRACT = FamilyCalls(
    "mixed_gemm",
    {"packed_gemm": (*PLAIN, *GATED)},
    kernels="mixed_host",
    measured=(
        Problem(4, 72, 160, bias=True),
        Problem(4, 72, 160, d="f32", bias=True),
        Problem(4, 8, 64, weight_format="mxfp4"),
        Problem(4, 72, 160, weight_format="int8_g128"),
        Problem(4, 80, 160, bias=True, activation="silu_mul"),
    ),
)
