"""Products of which a caller asks for some rows: every family that batch-invariant mode takes on Hopper.

A `Product` computes rows `start` to `start + m` of the same MOST rows, in one call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import gemm_reference as reference
import torch
from scaled_products import by_blocks, by_rows, exact

import tilewright
from tilewright.compat import deep_gemm
from tilewright.families.mixed_gemm.measuring import random_weight
from tilewright.families.mixed_gemm.problem import Problem as Dense
from tilewright.families.mixed_gemm.reference import decoded

MOST = 8192  # rows
GROUPS = 3


class Product(NamedTuple):
    """Rows of one result.

    rows: takes the first row and the number of rows, and computes them in one call.
    expected: takes indices of rows, and computes them in higher precision; None where only the tests of
        each kernel compare values.
    any_start: whether `rows` takes a first row other than 0.
    """

    rows: Callable[[int, int], torch.Tensor]
    expected: Callable[[torch.Tensor], torch.Tensor] | None = None
    any_start: bool = True


def gemm(a: str, n: int, k: int, **options: Any) -> Product:
    left, right = reference.random((MOST, k), a, 1), reference.random((n, k), a, 2).t()
    return Product(
        lambda start, m: tilewright.gemm(left[start : start + m], right, **options),
        lambda rows: left[rows].float() @ right.float(),
    )


def gated(n: int, k: int) -> Product:
    """silu(gate) * up of a merged weight, with a bias."""
    left, right = reference.random((MOST, k), "bf16", 1), reference.random((n, k), "bf16", 2).t()
    bias = reference.random((n,), "bf16", 3)

    def expected(rows: torch.Tensor) -> torch.Tensor:
        return reference.ACTIVATIONS["silu_mul"](0.03 * (left[rows].float() @ right.float()) + bias.float())

    options: dict[str, Any] = {"alpha": 0.03, "bias": bias, "activation": "silu_mul"}
    return Product(lambda start, m: tilewright.gemm(left[start : start + m], right, **options), expected)


def with_addends(a: str, n: int, k: int) -> Product:
    """activation(alpha * A B + beta * C + bias), with factors whose products are rounded; FP8 has scales."""
    left, right = reference.random((MOST, k), a, 1), reference.random((n, k), a, 2).t()
    c, bias = reference.random((MOST, n), "bf16", 3), reference.random((n,), "bf16", 4)
    scales = torch.tensor([0.3, 1.7], device=reference.DEVICE)
    options: dict[str, Any] = {"out_dtype": torch.bfloat16, "bias": bias, "activation": "silu"}
    factor = 0.7
    if a == "e4m3":
        options |= {"scale_a": scales[:1], "scale_b": scales[1:]}
        factor *= 0.3 * 1.7

    def rows(start: int, m: int) -> torch.Tensor:
        part = slice(start, start + m)
        return tilewright.gemm(left[part], right, c=c[part], alpha=0.7, beta=1.3, **options)

    def expected(rows: torch.Tensor) -> torch.Tensor:
        product = factor * (left[rows].float() @ right.float())
        return torch.nn.functional.silu(product + 1.3 * c[rows].float() + bias.float())

    return Product(rows, expected)


def einsum(n: int, k: int) -> Product:
    left = reference.random((GROUPS, MOST, k), "bf16", 1)
    right = reference.random((GROUPS, n, k), "bf16", 2)
    return Product(
        lambda start, m: tilewright.einsum("bmk,bnk->mbn", left[:, start : start + m], right),
        lambda rows: torch.stack([left[g][rows].float() @ right[g].float().t() for g in range(GROUPS)], 1),
    )


def scaled(n: int, k: int) -> Product:
    """D = A B^T with a scale for each 128 of a row of A and each 128 x 128 of B."""
    x = by_rows(reference.random((MOST, k), "bf16", 1))
    data, scales = by_blocks(reference.random((1, n, k), "bf16", 2))

    def rows(start: int, m: int) -> torch.Tensor:
        part = slice(start, start + m)
        d = torch.empty(m, n, device=x[0].device, dtype=torch.bfloat16)
        deep_gemm.fp8_gemm_nt((x[0][part], x[1][part]), (data[0], scales[0]), d)
        return d

    return Product(rows, lambda rows: _exact(x, (data[0], scales[0]), rows))


def _exact(x: Any, y: Any, rows: torch.Tensor) -> torch.Tensor:
    return exact((x[0][rows], x[1][rows])) @ exact(y).t()


def masked(a: str, n: int, k: int) -> Product:
    """The first m rows of each group; kernels are chosen for m."""
    x, y = reference.random((GROUPS, MOST, k), "bf16", 1), reference.random((GROUPS, n, k), "bf16", 2)
    pairs = (by_rows(x), by_blocks(y)) if a == "e4m3" else None

    def rows(_: int, m: int) -> torch.Tensor:
        d = torch.empty(GROUPS, MOST, n, device=x.device, dtype=torch.bfloat16)
        counts = torch.full((GROUPS,), m, device=x.device, dtype=torch.int32)
        if pairs:
            deep_gemm.m_grouped_fp8_gemm_nt_masked(*pairs, d, counts, m)
        else:
            deep_gemm.m_grouped_bf16_gemm_nt_masked(x, y, d, counts, m)
        return d[:, :m].transpose(0, 1)

    return Product(rows, any_start=False)


def contiguous(a: str, n: int, k: int) -> Product:
    """Rows of two groups, each padded to a multiple of 128."""
    x, y = reference.random((2, MOST, k), "bf16", 1), reference.random((2, n, k), "bf16", 2)
    blocks = by_blocks(y) if a == "e4m3" else None

    def rows(start: int, m: int) -> torch.Tensor:
        padded = -(-m // 128) * 128
        left = x.new_zeros((2, padded, k))
        left[:, :m] = x[:, start : start + m]
        groups = torch.full((2, padded), -1, device=x.device, dtype=torch.int32)
        groups[0, :m], groups[1, :m] = 0, 1
        d = torch.empty(2 * padded, n, device=x.device, dtype=torch.bfloat16)
        flat = left.view(2 * padded, k)
        if blocks:
            deep_gemm.m_grouped_fp8_gemm_nt_contiguous(by_rows(flat), blocks, d, groups.flatten())
        else:
            deep_gemm.m_grouped_bf16_gemm_nt_contiguous(flat, y, d, groups.flatten())
        return d.view(2, padded, n)[:, :m].transpose(0, 1)

    return Product(rows)


def nvfp4(n: int, k: int) -> Product:
    """FP4 weights and activations, decoded to 16 bits on Hopper."""
    x = reference.random((MOST, k), "bf16", 1)
    weight, weight_scales = tilewright.quantize_nvfp4(reference.random((n, k), "bf16", 2))

    def rows(start: int, m: int) -> torch.Tensor:
        data, scales = tilewright.quantize_nvfp4(x[start : start + m])
        result: torch.Tensor = tilewright.mm_nvfp4(data, weight.t(), scales, weight_scales)
        return result

    return Product(rows)


def _packed(problem: Dense) -> Any:
    return random_weight(problem, torch.Generator(reference.DEVICE).manual_seed(2))


def packed(weight_format: str, n: int, k: int) -> Product:
    """BF16 by packed weights."""
    problem = Dense(MOST, n, k, weight_format=weight_format)
    x, w = reference.random((MOST, k), "bf16", 1), _packed(problem)
    call: dict[str, Any] = {"weight": w.weight, "scale": w.scale, "n": n, "weight_format": weight_format}
    return Product(
        lambda start, m: tilewright.packed_gemm(x[start : start + m], **call),
        lambda rows: x[rows].float() @ decoded(w, problem).float().t(),
    )


def packed_fp8(n: int, k: int) -> Product:
    """FP8 by packed weights."""
    problem = Dense(MOST, n, k, weight_format="int4_g128")
    x, w = reference.random((MOST, k), "e4m3", 1), _packed(problem)
    call: dict[str, Any] = {"weight": w.weight, "scale": w.scale, "n": n}
    return Product(
        lambda start, m: tilewright.packed_fp8_gemm(x[start : start + m], **call),
        lambda rows: x[rows].float() @ decoded(w, problem).float().t(),
    )


def packed_experts(n: int, k: int) -> Product:
    """Rows of each of three experts with packed weights; kernels are chosen for m."""
    x = reference.random((GROUPS, MOST, k), "bf16", 1)
    stack = [_packed(Dense(MOST, n, k)) for _ in range(GROUPS)]
    call: dict[str, Any] = {
        "weight": torch.stack([w.weight for w in stack]),
        "scale": torch.stack([w.scale for w in stack]),
    }

    def rows(start: int, m: int) -> torch.Tensor:
        counts = torch.full((GROUPS,), m, device=x.device, dtype=torch.int32)
        part = x[:, start : start + m]
        return tilewright.packed_grouped_gemm(part, **call, n=n, rows_valid=counts).transpose(0, 1)

    return Product(rows)


FACTORIES: dict[str, Callable[[int, int], Product]] = {
    "bf16": lambda n, k: gemm("bf16", n, k),
    "f16": lambda n, k: gemm("f16", n, k),
    "bf16 into f32": lambda n, k: gemm("bf16", n, k, out_dtype=torch.float32),
    "fp8": lambda n, k: gemm("e4m3", n, k, out_dtype=torch.bfloat16),
    "fp8, fast": lambda n, k: gemm("e4m3", n, k, out_dtype=torch.bfloat16, fast_accum=True),
    "tf32": lambda n, k: gemm("tf32", n, k),
    "bf16, addends": lambda n, k: with_addends("bf16", n, k),
    "bf16, gated": gated,
    "fp8, addends": lambda n, k: with_addends("e4m3", n, k),
    "einsum": einsum,
    "scaled": scaled,
    "masked": lambda n, k: masked("e4m3", n, k),
    "masked, bf16": lambda n, k: masked("bf16", n, k),
    "contiguous": lambda n, k: contiguous("e4m3", n, k),
    "contiguous, bf16": lambda n, k: contiguous("bf16", n, k),
    "nvfp4": nvfp4,
    "packed int4": lambda n, k: packed("int4_g128", n, k),
    "packed mxfp4": lambda n, k: packed("mxfp4", n, k),
    "packed int4 by fp8": packed_fp8,
    "packed experts": packed_experts,
}
