"""Products that grouped_vs_deepgemm.py times: shapes of DeepGEMM's tests, and of `shapes/grouped.yaml`."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
import yaml
from benchmarks.lib.deepgemm_operands import Operands, Problem, by_blocks, by_rows, empty, random_matrix

SHAPES = Path(__file__).parents[1] / "shapes" / "grouped.yaml"
DENSE = [(2112, 7168), (576, 7168), (24576, 1536), (32768, 512), (7168, 16384), (4096, 7168), (7168, 2048)]
ROWS = (1, 128, 4096)
ALLOTTED = 4096  # rows of a group, masked
ALIGNMENT = 128


def dense_fp8() -> Iterator[Problem]:
    def make(m: int, n: int, k: int) -> Operands:
        a, b = random_matrix(m, k), random_matrix(n, k)
        return Operands((by_rows(a), by_blocks(b)), empty(m, n), a @ b.mT)

    def by_torch(x: Operands) -> Callable[[], Any]:
        (a, of_a), (b, of_b) = x.tensors
        packed = of_a.mT.contiguous().mT  # columns without gaps, as torch wants them
        return functools.partial(
            torch._scaled_mm, a, b.mT, scale_a=packed, scale_b=of_b.mT, out_dtype=torch.bfloat16
        )

    for m in ROWS:
        for n, k in DENSE:
            yield Problem(
                "dense_fp8",
                f"{m}x{n}x{k}",
                2.0 * m * n * k,
                functools.partial(make, m, n, k),
                lambda module, x: module.fp8_gemm_nt(*x.tensors, x.d),
                torch=by_torch,
                torch_name="torch._scaled_mm, scales 1x128 and 128x128",
            )


def dense_fp8_gradient() -> Iterator[Problem]:
    """Both operands with scales of 128 of k of a row, added to an FP32 result."""

    def make(m: int, n: int, k: int) -> Operands:
        a, b = random_matrix(m, k), random_matrix(n, k)
        d = torch.zeros(m, n, device="cuda")
        return Operands((by_rows(a), by_rows(b)), d, a.float() @ b.float().mT)

    def by_torch(x: Operands) -> Callable[[], Any]:
        (a, of_a), (b, of_b) = x.tensors
        left, right = of_a.mT.contiguous().mT, of_b.mT.contiguous()
        return functools.partial(
            torch._scaled_mm, a, b.mT, scale_a=left, scale_b=right, out_dtype=torch.float32
        )

    for n, k in DENSE:
        m = 4096
        yield Problem(
            "dense_fp8_gradient",
            f"{n}x{k}x{m}",
            2.0 * m * n * k,
            functools.partial(make, n, k, m),
            lambda module, x: module.fp8_gemm_nt(*x.tensors, x.d, c=x.d, recipe=(1, 1, 128)),
            torch=by_torch,
            torch_name="torch._scaled_mm, scales 1x128, without C",
        )


def dense_bf16() -> Iterator[Problem]:
    def make(m: int, n: int, k: int) -> Operands:
        a, b = random_matrix(m, k), random_matrix(n, k)
        return Operands((a, b), empty(m, n), a @ b.mT)

    for m in ROWS:
        for n, k in DENSE:
            yield Problem(
                "dense_bf16",
                f"{m}x{n}x{k}",
                2.0 * m * n * k,
                functools.partial(make, m, n, k),
                lambda module, x: module.bf16_gemm_nt(*x.tensors, x.d),
                most=1e-5,
                torch=lambda x: functools.partial(torch.mm, x.tensors[0], x.tensors[1].mT, out=x.d),
                torch_name="torch.mm",
            )


def shapes(grouping: str) -> list[dict[str, int]]:
    listed: list[dict[str, int]] = yaml.safe_load(SHAPES.read_text(encoding="utf-8"))[grouping]
    return listed


def group_rows(shape: dict[str, int]) -> list[int]:
    draw = random.Random(0)
    return [int(shape["m"] * draw.uniform(0.7, 1.3)) for _ in range(shape["g"])]


def contiguous(fp8: bool) -> Iterator[Problem]:
    def make(rows: list[int], n: int, k: int) -> Operands:
        aligned = [-(-each // ALIGNMENT) * ALIGNMENT for each in rows]
        a, b = random_matrix(sum(aligned), k), random_matrix(len(rows), n, k)
        groups = torch.full((sum(aligned),), -1, device="cuda", dtype=torch.int32)
        expected, start = torch.zeros(sum(aligned), n, device="cuda", dtype=torch.bfloat16), 0
        for group, (count, taken) in enumerate(zip(rows, aligned, strict=True)):
            groups[start : start + count] = group
            a[start + count : start + taken] = 0
            expected[start : start + count] = a[start : start + count] @ b[group].mT
            start += taken
        operands = (by_rows(a), by_blocks(b)) if fp8 else (a, b)
        return Operands((*operands, groups), empty(*expected.shape), expected, groups >= 0)

    def call(module: Any, x: Operands) -> None:
        a, b, groups = x.tensors
        name = "m_grouped_fp8_gemm_nt_contiguous" if fp8 else "m_grouped_bf16_gemm_nt_contiguous"
        getattr(module, name)(a, b, x.d, groups)

    def by_torch(x: Operands) -> Callable[[], Any]:
        a, b, groups = x.tensors
        weights = b[0] if fp8 else b
        # Its groups have no gaps: padding counts to the group before it.
        ends = [int((groups <= group).nonzero().max()) // ALIGNMENT for group in range(len(weights))]
        offsets = torch.tensor([(end + 1) * ALIGNMENT for end in ends], device="cuda", dtype=torch.int32)
        if not fp8:
            return functools.partial(torch._grouped_mm, a, weights.mT, offs=offsets)
        of_a = torch.ones(len(groups), device="cuda")
        of_b = torch.ones(weights.shape[:2], device="cuda")
        return functools.partial(
            torch._scaled_grouped_mm, a[0], weights.mT, of_a, of_b, offs=offsets, out_dtype=torch.bfloat16
        )

    for shape in shapes("contiguous"):
        rows, n, k = group_rows(shape), shape["n"], shape["k"]
        yield Problem(
            f"contiguous_{'fp8' if fp8 else 'bf16'}",
            f"{shape['g']}x{shape['m']}x{n}x{k}",
            2.0 * sum(rows) * n * k,
            functools.partial(make, rows, n, k),
            call,
            most=1e-3 if fp8 else 1e-5,
            torch=by_torch,
            torch_name="torch._scaled_grouped_mm, a scale for a row" if fp8 else "torch._grouped_mm",
        )


def masked(fp8: bool) -> Iterator[Problem]:
    def make(rows: list[int], n: int, k: int) -> Operands:
        a, b = random_matrix(len(rows), ALLOTTED, k), random_matrix(len(rows), n, k)
        counts = torch.tensor(rows, device="cuda", dtype=torch.int32)
        valid = torch.arange(ALLOTTED, device="cuda") < counts[:, None]
        most = max(rows)
        expected = empty(len(rows), ALLOTTED, n)
        expected[:, :most] = a[:, :most] @ b.mT
        operands = (by_rows(a), by_blocks(b)) if fp8 else (a, b)
        return Operands((*operands, counts), empty(len(rows), ALLOTTED, n), expected, valid)

    def call(expected: int, module: Any, x: Operands) -> None:
        a, b, counts = x.tensors
        name = "m_grouped_fp8_gemm_nt_masked" if fp8 else "m_grouped_bf16_gemm_nt_masked"
        getattr(module, name)(a, b, x.d, counts, expected)

    for shape in shapes("masked"):
        rows, n, k, expected = group_rows(shape), shape["n"], shape["k"], int(shape["m"] * 1.2)
        yield Problem(
            f"masked_{'fp8' if fp8 else 'bf16'}",
            f"{shape['g']}x{shape['m']}x{n}x{k}",
            2.0 * sum(rows) * n * k,
            functools.partial(make, rows, n, k),
            functools.partial(call, expected),
            most=1e-3 if fp8 else 1e-5,
        )


def k_grouped(fp8: bool) -> Iterator[Problem]:
    """Added to an FP32 result, as gradients of weights are. FP8 in blocks of each group, BF16 MN-major."""

    def make(sizes: list[int], m: int, n: int) -> Operands:
        a, b = random_matrix(sum(sizes), m), random_matrix(sum(sizes), n)
        expected = torch.stack(
            [x.float().mT @ y.float() for x, y in zip(a.split(sizes), b.split(sizes), strict=True)]
        )
        ks = torch.tensor(sizes, device="cuda", dtype=torch.int32)
        operands = (of_groups(a, sizes), of_groups(b, sizes)) if fp8 else (a, b)
        return Operands((*operands, ks), torch.zeros(len(sizes), m, n, device="cuda"), expected)

    def call(sizes: list[int], module: Any, x: Operands) -> None:
        a, b, ks = x.tensors
        name = "k_grouped_fp8_gemm_nt_contiguous" if fp8 else "k_grouped_bf16_gemm_tn_contiguous"
        getattr(module, name)(a, b, x.d, sizes, ks, x.d)

    def by_torch(sizes: list[int], x: Operands) -> Callable[[], Any]:
        ends = torch.tensor(sizes, device="cuda").cumsum(0).int()
        if not fp8:
            return functools.partial(torch._grouped_mm, x.tensors[0].mT, x.tensors[1], offs=ends)
        # Its groups are adjacent, with a scale for each row: the same bytes, other numbers.
        left, right = (tensor[0].view(-1, sum(sizes)) for tensor in x.tensors[:2])
        scales = (torch.ones(len(sizes) * len(matrix), device="cuda") for matrix in (left, right))
        return functools.partial(
            torch._scaled_grouped_mm, left, right.mT, *scales, offs=ends, out_dtype=torch.bfloat16
        )

    for shape in shapes("k_grouped"):
        draw = random.Random(0)
        sizes = [int(shape["k"] * draw.uniform(0.7, 1.3)) // ALIGNMENT * ALIGNMENT for _ in range(shape["g"])]
        m, n = shape["m"], shape["n"]
        yield Problem(
            f"k_grouped_{'fp8' if fp8 else 'bf16'}",
            f"{shape['g']}x{m}x{n}x{shape['k']}",
            2.0 * sum(sizes) * m * n,
            functools.partial(make, sizes, m, n),
            functools.partial(call, sizes),
            most=1e-3 if fp8 else 1e-5,
            torch=functools.partial(by_torch, sizes),
            torch_name=f"torch._{'scaled_' if fp8 else ''}grouped_mm"
            f"{', a scale for a row' if fp8 else ''}, to BF16, without C",
        )


def of_groups(x: torch.Tensor, sizes: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
    """FP8 of [k of all groups, m] as [m, k of the group], one group behind the other, and scales of 128 of k
    of a row, as kernels read them."""
    data, scales = by_rows(x.mT.contiguous())
    parts = [part.flatten() for part in data.view(torch.uint8).split(sizes, dim=1)]
    return torch.cat(parts).view(data.dtype), scales


KINDS: dict[str, Callable[[], Iterator[Problem]]] = {
    "dense_fp8": dense_fp8,
    "dense_fp8_gradient": dense_fp8_gradient,
    "contiguous_fp8": lambda: contiguous(fp8=True),
    "masked_fp8": lambda: masked(fp8=True),
    "contiguous_bf16": lambda: contiguous(fp8=False),
    "masked_bf16": lambda: masked(fp8=False),
    "k_grouped_fp8": lambda: k_grouped(fp8=True),
    "k_grouped_bf16": lambda: k_grouped(fp8=False),
    "dense_bf16": dense_bf16,
}
