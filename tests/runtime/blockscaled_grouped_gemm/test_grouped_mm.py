"""Block-scaled products of groups: results, what is refused, and what checks of results see."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import tilewright
from tilewright import reference
from tilewright.context import Context, use
from tilewright.errors import AlignmentError, ArgumentError, WrongResultError
from tilewright.families.blockscaled_grouped_gemm import measuring
from tilewright.families.blockscaled_grouped_gemm.problem import Problem

N, K = 16, 128
FORMATS = [
    ("nvfp4", "nvfp4"),
    ("mxfp4", "mxfp4"),
    ("mxfp8", "mxfp8"),
    ("mxfp8", "mxfp4"),
    ("mxfp8_e5m2", "mxfp4"),
]


def int32(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32)


def quantized(
    rows: int, name: str = "nvfp4", *batch: int, seed: int = 0
) -> tuple[torch.Tensor, torch.Tensor]:
    value = torch.randn((*batch, rows, K), generator=torch.Generator().manual_seed(seed))
    return reference.quantize(value, name)


@pytest.mark.parametrize(("a_format", "b_format"), FORMATS)
def test_rows_are_multiplied_by_the_matrix_of_their_group(
    blackwell_groups: Context, a_format: str, b_format: str
) -> None:
    """With the factor of the group; rows that are not of a group are zeros."""
    a, a_scales = quantized(300, a_format)
    b, b_scales = quantized(N, b_format, 2, seed=1)
    alpha = torch.tensor([0.75, -2.0])
    op = measuring.op_of(a_format, b_format)
    with use(blackwell_groups):
        d = op(a, b.mT, a_scales, b_scales, alpha, group_ends=int32(100, 300), zero_padding=True)
    left = reference.dequantize(a, a_scales, a_format)
    right = reference.dequantize(b, b_scales, b_format)
    expected = torch.zeros(300, N, dtype=torch.float64)
    expected[:100] = 0.75 * (left[:100] @ right[0].mT)
    expected[128:] = -2 * (left[128:] @ right[1].mT)
    torch.testing.assert_close(d.double(), expected, rtol=2.0**-8, atol=1e-6)


def test_each_group_has_rows_of_its_own(blackwell_groups: Context) -> None:
    a, a_scales = quantized(140, "nvfp4", 3)
    b, b_scales = quantized(N, "nvfp4", 3, seed=1)
    counts = int32(5, 0, 140)
    with use(blackwell_groups):
        d = tilewright.grouped_mm_nvfp4(
            a, b.mT, a_scales, b_scales, rows_valid=counts, out_dtype=torch.float32
        )
    left, right = reference.dequantize(a, a_scales, "nvfp4"), reference.dequantize(b, b_scales, "nvfp4")
    for group, count in enumerate(counts.tolist()):
        expected = left[group, :count] @ right[group].mT
        torch.testing.assert_close(d[group, :count].double(), expected, rtol=1e-6, atol=1e-6)


def test_scale_factors_of_groups_begin_where_the_call_says(blackwell_groups: Context) -> None:
    """Groups of 3, 0 and 42 rows follow each other; their factors lie in another order, 128 rows apart."""
    sizes, begins, ends = [3, 0, 42], [256, 384, 0], int32(3, 3, 45)
    b, b_scales = quantized(N, "nvfp4", 3, seed=1)
    parts = [quantized(max(size, 1), seed=2 + size) for size in sizes]
    a = torch.cat([data[:size] for (data, _), size in zip(parts, sizes, strict=True)])
    rows = (45 + 127 * 3) // 128 * 128
    a_scales = torch.zeros(rows, parts[0][1].shape[-1], dtype=torch.uint8)
    for (_, scales), begin in zip(parts, begins, strict=True):
        if begin < rows:
            a_scales[begin : begin + 128] = scales.view(torch.uint8)
    with use(blackwell_groups):
        d = tilewright.grouped_mm_nvfp4(
            a, b.mT, a_scales, b_scales, group_ends=ends, row_alignment=1, scale_begins=int32(*begins)
        )
    begin = 0
    for group, size in enumerate(sizes):
        left = reference.dequantize(*parts[group], "nvfp4")[:size]
        right = reference.dequantize(b[group], b_scales[group], "nvfp4")
        actual = d[begin : begin + size].double()
        torch.testing.assert_close(actual, left @ right.mT, rtol=2.0**-8, atol=1e-6)
        begin += size


def test_without_k_results_are_zeros(blackwell_groups: Context) -> None:
    empty = torch.empty(4, 0, dtype=torch.uint8)
    scales = torch.empty(0, dtype=torch.uint8)
    out = torch.full((4, N), 77.0, dtype=torch.bfloat16)
    with use(blackwell_groups):
        b = torch.empty(2, N, 0, dtype=torch.uint8).mT
        tilewright.grouped_mm_nvfp4(empty, b, scales, scales, group_ends=int32(4, 4), out=out)
    assert not out.any()


def call(**arguments: Any) -> None:
    a, a_scales = quantized(200)
    b, b_scales = quantized(N, "nvfp4", 2, seed=1)
    given = {"a": a, "b": b.mT, "a_descale": a_scales, "b_descale": b_scales, "group_ends": int32(100, 200)}
    tilewright.grouped_mm_nvfp4(**given | arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"group_ends": None}, "group_of_row: expected one of"),
        ({"rows_valid": int32(1, 1)}, "got group_ends and rows_valid"),
        ({"row_alignment": 64}, "row_alignment: expected a multiple of 128, got 64.*scale_begins"),
        (
            {"group_ends": None, "group_of_row": torch.zeros(200).int(), "scale_begins": int32(0, 128)},
            "scale_begins: expected None unless group_ends",
        ),
        ({"scale_begins": int32(0, 128)}, r"a_descale: .*expected 3072 elements"),
        ({"alpha": torch.ones(1)}, r"alpha: its shape is \[1\]; expected \[2\]"),
        ({"zero_padding": 1}, "zero_padding: expected a bool, got 1"),
    ],
)  # fmt: skip
def test_what_is_refused(blackwell_groups: Context, arguments: dict[str, Any], message: str) -> None:
    with use(blackwell_groups), pytest.raises(ArgumentError, match=f"(?s){message}"):
        call(**arguments)


def test_fp4_beside_fp8_is_loaded_in_128_elements(blackwell_groups: Context) -> None:
    """Rows of b that begin at other multiples are refused before a kernel is asked."""
    a, a_scales = quantized(128, "mxfp8")
    b, b_scales = quantized(N, "mxfp4", 1, seed=1)
    wide = torch.zeros(1, N, K // 2 + 32, dtype=torch.uint8)
    wide[..., : K // 2] = b.view(torch.uint8)
    with use(blackwell_groups), pytest.raises(AlignmentError, match=r"b: .*128 elements of FP4 beside FP8"):
        tilewright.grouped_mm_mxfp8_mxfp4(
            a, wide[..., : K // 2].mT, a_scales, b_scales, group_ends=int32(128)
        )


@pytest.mark.parametrize(
    "problem",
    [
        Problem(200, N, K, 3),
        Problem(140, N, K, 3, grouping="rows_valid", a="mxfp8", b="mxfp4", expected_m=60),
        Problem(45, N, K, 3, scale_begins=True, row_alignment=1),
        Problem(300, N, K, 3, grouping="row_index"),
    ],
    ids=lambda problem: f"{problem.grouping} {problem.row_alignment}",
)
@pytest.mark.parametrize("fault", ["", "alpha", "a_descale", "b_descale", "out"])
def test_the_check_of_a_measured_call_sees_faults(
    blackwell_groups: Context, problem: Problem, fault: str
) -> None:
    with use(blackwell_groups):
        operands = measuring.make(problem, torch.Generator().manual_seed(0))
        operands.poison()
        operands.call()
    if not fault:
        assert operands.check() < 4e-3
        return
    if fault == "alpha":
        operands.alpha = operands.alpha.flip(0)
    elif fault == "out":
        operands.out[0 if operands.out.dim() == 2 else operands.rows_valid.argmax(), 0] += 1
    else:
        scales = getattr(operands, fault).view(torch.uint8)
        scales.copy_(scales.flip(-1))
    with pytest.raises(WrongResultError):
        operands.check()
