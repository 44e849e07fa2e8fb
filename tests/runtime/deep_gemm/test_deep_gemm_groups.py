"""Grouped products of `tilewright.compat.deep_gemm` by kernels of the host."""

from __future__ import annotations

import pytest
import torch
from deep_gemm_operands import close, matrix, quantised, ready

from tilewright import context
from tilewright.compat import deep_gemm
from tilewright.context import Context
from tilewright.errors import ArgumentError


def test_rows_without_a_group_are_zeroed(all_hosts: Context) -> None:
    """As DeepGEMM's kernels do on Hopper, whatever `ensure_zero_padding` says, also in 64 rows that all are
    padding."""
    m, n, k = 128, 128, 256
    (a, _), (b, _) = quantised(matrix(m, k)), quantised(matrix(1, n, k, seed=1), (128, 128))
    indices = torch.full((m,), -1, dtype=torch.int32)
    indices[:5] = 0
    d = torch.full((m, n), float("nan"), dtype=torch.bfloat16)
    deep_gemm.m_grouped_fp8_gemm_nt_contiguous(a, b, d, indices, ensure_zero_padding=False)
    assert d[:5].all()
    assert (d[5:] == 0).all()


def test_padding_is_zeroed_whatever_the_call_before_asked(all_hosts: Context, alignment: None) -> None:
    """The launcher that is kept for calls without zeros is not used by a call with them."""
    deep_gemm.set_mk_alignment_for_contiguous_layout(128)
    a, b = matrix(384, 256).bfloat16(), matrix(2, 128, 256, seed=1).bfloat16()
    ends = torch.tensor([5, 133], dtype=torch.int32)
    d = torch.empty(384, 128, dtype=torch.bfloat16)
    for zeroes in (False, False, True, False, True):
        d.fill_(7.0)
        deep_gemm.m_grouped_bf16_gemm_nt_contiguous(
            a, b, d, ends, use_psum_layout=True, ensure_zero_padding=zeroes
        )
        if zeroes:
            assert not d[5:128].any()
            assert not d[133:].any()
        else:
            assert (d[256:] == 7.0).all()


@pytest.mark.parametrize("fp8", [True, False])
@pytest.mark.parametrize("ends", [True, False])
def test_groups_of_rows(all_hosts: Context, alignment: None, ends: bool, fp8: bool) -> None:
    deep_gemm.set_mk_alignment_for_contiguous_layout(32)
    rows, n, k = [5, 0, 32, 40], 128, 256
    starts = [0, 32, 32, 64]
    m = 128
    (a, x), (b, y) = quantised(matrix(m, k)), quantised(matrix(4, n, k, seed=1), (128, 128))
    indices = torch.full((m,), -1, dtype=torch.int32)
    for group, (start, count) in enumerate(zip(starts, rows, strict=True)):
        indices[start : start + count] = group
    layout = (
        torch.tensor([s + c for s, c in zip(starts, rows, strict=True)], dtype=torch.int32)
        if ends
        else indices
    )
    d = torch.full((m, n), float("nan"), dtype=torch.bfloat16)
    if fp8:
        deep_gemm.m_grouped_fp8_gemm_nt_contiguous(a, b, d, layout, use_psum_layout=ends)
    else:
        x, y = x.bfloat16(), y.bfloat16()
        deep_gemm.m_grouped_bf16_gemm_nn_contiguous(x, y.mT.contiguous(), d, layout, use_psum_layout=ends)
    expected = torch.zeros(m, n, dtype=torch.float64)
    for group in range(4):
        of_group = indices == group
        expected[of_group] = x[of_group].double() @ y[group].double().mT
    close(d, expected)
    assert not d[indices < 0].any()


@pytest.mark.parametrize("fp8", [True, False])
def test_the_first_rows_of_masked_groups_are_computed(all_hosts: Context, fp8: bool) -> None:
    (a, x), (b, y) = quantised(matrix(3, 16, 256)), quantised(matrix(3, 128, 256, seed=1), (128, 128))
    counts = torch.tensor([16, 0, 7], dtype=torch.int32)
    d = torch.full((3, 16, 128), torch.nan, dtype=torch.bfloat16)
    if fp8:
        deep_gemm.m_grouped_fp8_gemm_nt_masked(a, b, d, counts, 8)
    else:
        x, y = x.bfloat16(), y.bfloat16()
        deep_gemm.m_grouped_bf16_gemm_nt_masked(x, y, d, counts, 8)
    for group, count in enumerate(counts.tolist()):
        close(d[group, :count], x[group, :count].double() @ y[group].double().mT)


def test_rows_by_index(all_hosts: Context) -> None:
    a, b = matrix(40, 64).bfloat16(), matrix(2, 16, 64, seed=1).bfloat16()
    groups = torch.tensor([0] * 20 + [-1] * 12 + [1] * 32, dtype=torch.int32)
    rows = torch.randint(0, 40, (64,), generator=torch.Generator().manual_seed(0), dtype=torch.int32)
    rows[20:32] = -1
    d = torch.full((64, 16), torch.nan, dtype=torch.bfloat16)
    deep_gemm.legacy.a_fused_m_grouped_bf16_gemm_nt_contiguous_tl(a, b, d, (groups, rows))
    expected = torch.einsum("mk,mnk->mn", a[rows.clamp(0)].double(), b[groups.clamp(0)].double())
    close(d, expected * (groups >= 0)[:, None])


@pytest.mark.parametrize("fp8", [True, False])
def test_another_alignment_of_groups_is_another_launch(
    all_hosts: Context, alignment: None, fp8: bool
) -> None:
    """Groups of 20 and 30 rows begin at multiples of the alignment: of the same tensors, other rows count."""
    (a, x), (b, y) = ready(matrix(256, 256)), quantised(matrix(2, 128, 256, seed=1), (128, 128))
    for multiple in (32, 128, 32, 128):
        deep_gemm.set_mk_alignment_for_contiguous_layout(multiple)
        ends = torch.tensor([20, multiple + 30], dtype=torch.int32)
        for _ in range(2):
            d = torch.full((256, 128), torch.nan, dtype=torch.bfloat16)
            if fp8:
                deep_gemm.m_grouped_fp8_gemm_nt_contiguous(a, b, d, ends, use_psum_layout=True)
            else:
                deep_gemm.m_grouped_bf16_gemm_nt_contiguous(
                    x.bfloat16(), y.bfloat16(), d, ends, use_psum_layout=True
                )
            expected = torch.zeros(256, 128, dtype=torch.float64)
            rounded = (x, y) if fp8 else (x.bfloat16().double(), y.bfloat16().double())
            for group, rows in enumerate((slice(20), slice(multiple, multiple + 30))):
                expected[rows] = rounded[0][rows] @ rounded[1][group].mT
            close(d, expected)
            assert not d[multiple + 30 :].any()


@pytest.mark.parametrize("fp8", [True, False])
def test_what_is_expected_of_masked_groups_chooses_anew(all_hosts: Context, fp8: bool) -> None:
    (a, x), (b, y) = ready(matrix(2, 4, 256)), quantised(matrix(2, 128, 256, seed=1), (128, 128))
    counts, d = torch.tensor([4, 2], dtype=torch.int32), torch.zeros(2, 4, 128, dtype=torch.bfloat16)
    for expected_m in (1, 4, 1, 4):
        d.fill_(torch.nan)
        if fp8:
            deep_gemm.m_grouped_fp8_gemm_nt_masked(a, b, d, counts, expected_m)
        else:
            deep_gemm.m_grouped_bf16_gemm_nt_masked(x.bfloat16(), y.bfloat16(), d, counts, expected_m)
        close(d[0], x[0] @ y[0].mT)
        close(d[1, :2], x[1, :2] @ y[1].mT)
    keys = [key for key in context.current().plans.launchers if key[0] == "masked"]
    assert len(keys) == 2, "each has a launcher of its own"
    planned = {key: plan for key, plan in all_hosts.plans.items() if key[0] == "grouped_gemm_masked"}
    assert {plan.problem.expected_m for plan in planned.values()} == {1, 4}


def test_masked_groups_whose_scales_are_not_cast_have_a_launcher_of_their_own(all_hosts: Context) -> None:
    """On GPUs of 10.x scales that may be cast become powers of two, and others stay as they are."""
    (a, _), (b, _) = ready(matrix(2, 4, 256)), quantised(matrix(2, 128, 256, seed=1), (128, 128))
    counts, d = torch.tensor([4, 2], dtype=torch.int32), torch.zeros(2, 4, 128, dtype=torch.bfloat16)
    for exact in (True, False, True, False):
        deep_gemm.m_grouped_fp8_gemm_nt_masked(a, b, d, counts, 4, disable_ue8m0_cast=exact)
    assert len([key for key in context.current().plans.launchers if key[0] == "masked"]) == 2


@pytest.mark.parametrize("fp8", [True, False])
def test_what_is_expected_of_groups_by_their_ends_chooses_anew(all_hosts: Context, fp8: bool) -> None:
    (a, x), (b, y) = ready(matrix(256, 256)), quantised(matrix(2, 128, 256, seed=1), (128, 128))
    ends, results = torch.tensor([4, 130], dtype=torch.int32), []
    for expected_m in (None, 4, 100, 4):
        d = torch.full((256, 128), torch.nan, dtype=torch.bfloat16)
        options = {"use_psum_layout": True, "expected_m_for_psum_layout": expected_m}
        if fp8:
            deep_gemm.m_grouped_fp8_gemm_nt_contiguous(a, b, d, ends, **options)
        else:
            left, right = x.bfloat16(), y.bfloat16()
            deep_gemm.m_grouped_bf16_gemm_nt_contiguous(left, right, d, ends, **options)
        results.append(d)
    assert all(torch.equal(d, results[0]) for d in results)
    planned = {key: plan for key, plan in all_hosts.plans.items() if key[0] == "grouped_gemm_contiguous"}
    assert {plan.problem.expected_m for plan in planned.values()} == {0, 4, 100}


@pytest.mark.parametrize(
    ("ends", "expected_m", "message"),
    [
        (False, 4, "it is given without use_psum_layout"),
        (True, 0, "it is 0; expected a positive number of rows"),
    ],
)
def test_expectations_that_are_refused(all_hosts: Context, ends: bool, expected_m: int, message: str) -> None:
    rows, d = torch.zeros(256, dtype=torch.int32), torch.zeros(256, 128, dtype=torch.bfloat16)
    a, b = matrix(256, 64).bfloat16(), matrix(1, 128, 64, seed=1).bfloat16()
    with pytest.raises(ArgumentError, match=f"expected_m_for_psum_layout: {message}"):
        deep_gemm.m_grouped_bf16_gemm_nt_contiguous(
            a, b, d, rows, use_psum_layout=ends, expected_m_for_psum_layout=expected_m
        )
