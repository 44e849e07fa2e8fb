"""Operands whose rows, or matrices, lie more than 2^31 elements apart: what a caller cuts out of large
tensors, and where an address that is computed in 32 bits leads elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

import tilewright
from tilewright.declarations import catalog
from tilewright.errors import ArgumentError, NotBuiltError
from tilewright.families.blockscaled_gemm.problem import Problem as Blockscaled
from tilewright.families.gemm.problem import Problem as Gemm
from tilewright.families.grouped_gemm.problem import Problem as Grouped
from tilewright.families.hc_prenorm.problem import Problem as Prenorm
from tilewright.families.mixed_fp8_gemm.problem import Problem as MixedFp8
from tilewright.families.mixed_fp8_grouped_gemm.problem import Problem as Fp8Experts
from tilewright.families.mixed_gemm.problem import Problem as Mixed
from tilewright.families.mixed_grouped_gemm.problem import Problem as Experts
from tilewright.families.mqa_logits.problem import Problem as Mqa
from tilewright.families.quantize.problem import Problem as Quantize
from tilewright.families.reduced_gemm.problem import Problem as Reduced
from tilewright.families.scale_columns.problem import Problem as Columns
from tilewright.families.transpose_fp8.problem import Problem as Transpose
from tilewright.formats.dtypes import as_bytes
from tilewright.tools import measuring

FAR = 2**31  # elements from the first row, or matrix, to the last
_UNIT = 256  # elements of which distances are multiples
_FREE = 24 * 2**30  # bytes of the GPU that the largest case wants
BF16 = {"a": "bf16", "b": "bf16", "scales": "none"}
FP8 = {"a": "e4m3", "b": "e4m3"}
PROBLEMS = [
    ("gemm", Gemm(40, 72, 64, c=True)),
    ("gemm", Gemm(40, 71, 64)),  # threads store D
    ("gemm", Gemm(3, 72, 128, c=True)),
    ("gemm", Gemm(40, 72, 128, 3, **FP8)),
    ("gemm", Gemm(40, 72, 64, d="f32", c=True)),
    ("gemm", Gemm(40, 72, 64, a="tf32", b="tf32", d="f32")),
    ("blockscaled_gemm", Blockscaled(40, 64, 128, 2)),
    ("blockscaled_gemm", Blockscaled(40, 64, 128, a="mxfp8", b="mxfp8")),
    ("grouped_gemm", Grouped(36, 160, 256, 3, c=True)),
    ("grouped_gemm", Grouped(36, 160, 256, 3, c=True, scales="1x128", d="f32")),
    ("grouped_gemm", Grouped(36, 160, 256, 3, grouping="rows_valid")),
    ("grouped_gemm", Grouped(300, 160, 256, 3, grouping="row_index", **BF16)),
    ("grouped_gemm", Grouped(40, 160, 384, 3, grouping="k_sizes", layout="nt", d="f32", **BF16)),
    ("mixed_gemm", Mixed(40, 72, 160)),
    ("mixed_gemm", Mixed(3, 72, 256)),
    ("mixed_fp8_gemm", MixedFp8(40, 72, 160)),
    ("mixed_grouped_gemm", Experts(36, 72, 160, 3, grouping="rows_valid")),
    ("mixed_grouped_gemm", Experts(300, 72, 160, 3, grouping="row_index")),
    ("mixed_fp8_grouped_gemm", Fp8Experts(36, 72, 160, 3, grouping="rows_valid")),
    ("mixed_fp8_grouped_gemm", Fp8Experts(300, 72, 160, 3, grouping="row_index")),
    ("hc_prenorm", Prenorm(12, 24, 1024, splits=2)),
    ("mqa_logits", Mqa(queries=6, keys=70)),
    ("mqa_logits", Mqa(queries=6, keys=70, form="paged", next_n=2)),
    ("quantize", Quantize(40, 256, 2)),
    ("quantize", Quantize(40, 256, 2, format="fp8_1x128", layout="m_major")),
    ("quantize", Quantize(40, 256, 2, format="fp8_128x128", layout="row_major")),
    ("quantize", Quantize(40, 256, 2, format="mxfp8", direction="dequantize")),
    ("reduced_gemm", Reduced(16, 24, 64, 5, d="f32", c=True)),
    ("scale_columns", Columns(37, 9, 2)),
    ("transpose_fp8", Transpose(37, 24, 2)),
]


def far_apart(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """Copies in which the first and the last of one dimension lie `FAR` apart; not of that whose neighbours
    touch."""
    raw = as_bytes(tensor)
    for far in range(tensor.dim()):
        if raw.shape[far] < 2 or raw.stride(far) == 1 or raw.numel() == raw.shape[far]:
            continue
        strides, step = [0] * raw.dim(), 1
        for dimension in sorted(range(raw.dim()), key=raw.stride):
            if dimension != far:
                strides[dimension] = step
                step = -(-step * raw.shape[dimension] // _UNIT) * _UNIT
        strides[far] = -(-FAR // (raw.shape[far] - 1) // _UNIT) * _UNIT
        count = 1 + sum((n - 1) * stride for n, stride in zip(raw.shape, strides, strict=True)) + _UNIT
        room = torch.empty(count, dtype=raw.dtype, device=raw.device)
        yield room.as_strided(raw.shape, strides).copy_(raw).view(tensor.dtype)


@pytest.mark.parametrize(("family", "problem"), PROBLEMS, ids=[str(problem) for _, problem in PROBLEMS])
def test_rows_that_lie_far_apart(family: str, problem: Any) -> None:
    if torch.cuda.mem_get_info()[0] < _FREE:
        pytest.skip(f"less than {_FREE >> 30} GiB of the GPU's memory are free")
    try:
        check(family, problem, "cuda")
    except torch.OutOfMemoryError:
        pytest.skip("another process has taken the GPU's memory")
    finally:
        torch.cuda.empty_cache()  # others may want it


def check(family: str, problem: Any, device: str) -> None:
    """Each operand in turn, D too; what an op refuses, it may."""
    computed = []
    try:  # making operands launches kernels, too: a schedule, scale factors
        operands = catalog.family_module(family, "measuring").make(
            problem, torch.Generator(device).manual_seed(0)
        )
        measuring.checked(operands)
        for name, tensor in vars(operands).items():
            if not isinstance(tensor, torch.Tensor) or name not in operands._names or tensor.dim() < 2:
                continue
            for other in far_apart(tensor):
                try:
                    measuring.checked(operands.changed(**{name: other}))
                except ArgumentError:
                    continue
                computed.append(name)
    except NotBuiltError as error:
        pytest.skip(error.message)
    assert computed, "every operand is refused"
    assert {"out", "data"} & {*computed}, "no result lay far apart"


def random_bytes(*shape: int) -> torch.Tensor:
    return torch.empty(shape, dtype=torch.uint8, device="cuda").random_(256)


@pytest.mark.parametrize("rows", [4, 64])
@pytest.mark.parametrize("groups", [0, 136], ids=["one weight", "experts"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float8_e4m3fn], ids=str)
def test_packed_weights_of_more_than_4_gib(groups: int, rows: int, dtype: torch.dtype) -> None:
    """The last 64 rows of W, and the last expert: as if they were a weight of their own. No address of theirs
    lies within 32 bits of the first byte."""
    if torch.cuda.mem_get_info()[0] < _FREE:
        pytest.skip(f"less than {_FREE >> 30} GiB of the GPU's memory are free")
    k = 8192 if groups else 2**20
    leading = (groups, 128) if groups else (129,)
    weight = random_bytes(*leading, k // 128 * 4096)
    scale = torch.full((*leading, k // 128 * 64), 2.0**-6, dtype=torch.bfloat16, device="cuda")
    a = torch.randn(rows, k, device="cuda").to(dtype)
    packed = scale.view(torch.uint8)
    multiply, multiply_groups = tilewright.packed_gemm, tilewright.packed_grouped_gemm
    if dtype == torch.float8_e4m3fn:
        multiply, multiply_groups = tilewright.packed_fp8_gemm, tilewright.packed_fp8_grouped_gemm
    try:
        if groups:
            index = torch.full((rows,), groups - 1, dtype=torch.int32, device="cuda")
            d = multiply_groups(a, weight, packed, n=8192, group_of_row=index)
            expected = multiply(a, weight[-1].clone(), packed[-1].clone(), n=8192)
        else:
            d = multiply(a, weight, packed, n=8256)[:, -64:]
            expected = multiply(a, weight[-1:].clone(), packed[-1:].clone(), n=64)
    except NotBuiltError as error:
        pytest.skip(error.message)
    assert weight.numel() > 2**32
    error = (d.double() - expected.double()).norm() / expected.double().norm()
    assert float(error) < 1e-2
