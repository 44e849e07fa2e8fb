"""Factors of products and of C on a GPU: the default beta, and an alpha of 0."""

from __future__ import annotations

import math
from typing import Any

import gemm_reference as reference
import pytest
import torch
from torch_helpers import built, random, weight

import tilewright
import tilewright.torch_ops

pytestmark = pytest.mark.marks_kernels

OPS = torch.ops.tilewright
M, N, K = SHAPE = (144, 272, 512)
# Types of A and B, of D, and the options that D's type needs.
TYPES: dict[str, tuple[str, dict[str, Any]]] = {
    "bf16": ("bf16", {}),
    "f16": ("f16", {}),
    "tf32": ("f32", {}),
    "e4m3": ("bf16", {"out_dtype": torch.bfloat16}),
    "s8": ("s32", {}),
}
# What a and b are filled with: BLAS reads neither of them where alpha is 0.
UNREAD = {"bf16": (math.inf, math.nan), "f16": (-math.inf, math.inf), "tf32": (math.nan, math.inf)} | {
    "e4m3": (math.nan, math.nan),
    "s8": (127, -128),
}


@pytest.mark.parametrize("kind", TYPES)
def test_c_is_added_unless_beta_says_otherwise(kind: str) -> None:
    d, options = TYPES[kind]
    a, b = random(M, K, dtype=kind), weight(N, K, kind)
    product = a.double() @ b.double()
    c = random(M, N, dtype=d, seed=5)
    config = {"a": kind, "d": d, "fast_accum": False, "activation": "none"}
    for name, call in {
        "a new D": lambda: tilewright.gemm(a, b, c=c, **options),
        "a plan": lambda: tilewright.plan(tilewright.gemm, a, b, c=c, **options)(a, b),
        "torch's op": lambda: OPS.gemm(a, b, c=c, **options),
        "warm": lambda: tilewright.gemm(a, b, c=c, **options),
    }.items():
        reference.compare(built(call), product + c.double(), config, K, name)
    out = c.clone()
    tilewright.gemm(a, b, c=out, out=out)
    reference.compare(out, product + c.double(), config, K, "D in place of C")
    reference.compare(tilewright.gemm(a, b, **options), product, config, K, "without C")


@pytest.mark.parametrize("kind", TYPES)
def test_an_alpha_of_0_reads_neither_operand(kind: str) -> None:
    d, options = TYPES[kind]
    dtype = reference.DTYPES[kind]
    values = UNREAD[kind]
    a = torch.full((M, K), values[0], device="cuda").to(dtype)
    b = torch.full((N, K), values[1], device="cuda").to(dtype).t()
    c = random(M, N, dtype=d, seed=5)
    for _ in range(3):  # from the second call on the plan is remembered
        zero = built(lambda: tilewright.gemm(a, b, alpha=0, **options))
        assert zero.eq(0).all()
        assert torch.equal(tilewright.gemm(a, b, c=c, alpha=0, **options), c)
        assert torch.equal(tilewright.gemm(a, b, c=c, alpha=0, beta=-2, **options), -2 * c)
        out = torch.full_like(c, 77)
        tilewright.gemm(a, b, alpha=0, out=out)
        assert torch.equal(out, zero)
        assert torch.equal(OPS.gemm(a, b, c=c, alpha=0, **options), c)
    # The same plan with another alpha multiplies.
    plan = built(lambda: tilewright.plan(tilewright.gemm, a, b, c=c, **options))
    assert torch.equal(plan(a, b, alpha=0), c)
    if kind == "s8":
        assert torch.equal(plan(a, b), c - K * 127 * 128)
    else:
        assert not plan(a, b).isfinite().any()


def test_an_alpha_of_0_in_a_cuda_graph() -> None:
    a, b = torch.full((M, K), math.inf, device="cuda").bfloat16(), weight(N, K)
    c, out = random(M, N, seed=5), torch.empty(M, N, device="cuda", dtype=torch.bfloat16)
    bias = random(N, seed=6)
    built(lambda: tilewright.gemm(a, b, c=c, bias=bias, alpha=0, activation="relu", out=out))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        tilewright.gemm(a, b, c=c, bias=bias, alpha=0, activation="relu", out=out)
    c.mul_(-1)
    out.fill_(math.nan)
    graph.replay()
    assert torch.equal(out, (c.float() + bias.float()).relu().bfloat16())
