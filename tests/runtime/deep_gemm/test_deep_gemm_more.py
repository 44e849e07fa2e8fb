"""`tilewright.compat.deep_gemm` without a GPU: what decides which launcher and which layout a call takes."""

from __future__ import annotations

import pytest
import torch
from deep_gemm_operands import close, matrix, quantised, ready

from tilewright import blockwise_scales, context
from tilewright.compat import deep_gemm
from tilewright.context import Context
from tilewright.declarations.matrices import layout_of
from tilewright.errors import ArgumentError, LaunchError, NoKernelError


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


@pytest.mark.parametrize("same", [False, True], ids=["c", "c is d"])
@pytest.mark.parametrize("expr", ["bhr,hdr->bhd", "bhd,hdr->bhr"])
def test_fp8_einsum_adds_c(all_hosts: Context, expr: str, same: bool) -> None:
    b, h, r, d = 6, 2, 256, 128
    summed, kept = (r, d) if expr.endswith("bhd") else (d, r)
    (x, left), (y, right) = (
        quantised(matrix(b * h, summed)),
        quantised(matrix(h, d, r, seed=1), (128, 128)),
    )
    x = x[0].view(b, h, summed), x[1].view(b, h, -1)
    for _ in range(2):
        c = (10 * matrix(b, h, kept, seed=2)).bfloat16()
        result = c if same else torch.full_like(c, torch.nan)
        expected = torch.einsum(expr, left.view(b, h, summed), right) + c.double()
        deep_gemm.fp8_einsum(expr, x, y, result, c)
        close(result, expected)


def test_scales_of_a_batch_with_gaps_are_laid_out_anew(all_hosts: Context) -> None:
    wide = blockwise_scales.m_major(matrix(2, 8, 6))
    gaps = wide[..., :3]  # each matrix lies m_major; three columns are skipped between two
    assert gaps.stride() == (48, 1, 8)
    made = deep_gemm.get_mn_major_tma_aligned_tensor(gaps)
    assert made.stride() == (24, 1, 8)
    assert torch.equal(made, gaps)
    whole = blockwise_scales.m_major(matrix(2, 8, 3))
    assert deep_gemm.get_mn_major_tma_aligned_tensor(whole) is whole
    assert deep_gemm.get_mn_major_tma_aligned_tensor(gaps[0]).data_ptr() == gaps.data_ptr()


@pytest.mark.parametrize(("columns", "words"), [(1, 1), (4, 1), (5, 2), (7, 2), (8, 2)])
def test_words_of_a_last_block_that_is_short(all_hosts: Context, columns: int, words: int) -> None:
    exponents = torch.randint(-20, 20, (6, columns), generator=torch.Generator().manual_seed(columns))
    packed = deep_gemm.get_mn_major_tma_aligned_packed_ue8m0_tensor(2.0 ** exponents.float())
    assert packed.shape == (6, words)
    actual = packed.clone(memory_format=torch.contiguous_format).reshape(-1).view(torch.uint8).view(6, -1)
    assert torch.equal(actual[:, :columns].int() - 127, exponents.int())
    assert not actual[:, columns:].any()


@pytest.mark.parametrize(
    ("sizes", "words"), [([512, 512], 2), ([100, 512, 513, 0], 4), ([1, 1, 1], 3), ([1024, 640], 4)]
)
def test_words_of_groups_along_k(sizes: list[int], words: int) -> None:
    """Each group's last word may hold fewer than four exponents of 128 of k."""
    blocks = sum(-(-size // 128) for size in sizes)
    scales = torch.empty(blocks, 8, device="meta")
    ks = torch.empty(len(sizes), dtype=torch.int32, device="meta")
    arguments = scales, ks, sizes, 128, 128
    assert deep_gemm.get_k_grouped_mn_major_tma_aligned_packed_ue8m0_tensor(*arguments).shape == (words, 8)


@pytest.mark.parametrize("wide", [False, True], ids=["narrow", "strided"])
def test_rows_that_tma_does_not_read_are_launched_by_group(all_hosts: Context, wide: bool) -> None:
    """Rows of 16 elements in memory at distances of 20, and rows of 12: neither are whole 16 bytes. The host
    has no kernel of `gemm` to F32, which the message names."""
    sizes, m = [64, 0, 128], 16 if wide else 12
    ks = torch.tensor(sizes, dtype=torch.int32)
    a, b = matrix(192, 20).bfloat16()[:, :m], matrix(192, 24, seed=1).bfloat16()
    a = a if wide else a.contiguous()
    d = matrix(3, m, 24, seed=2)
    with pytest.raises(NoKernelError, match=rf"gemm {m}x24x64 bf16 x bf16 -> f32, .* with c"):
        deep_gemm.k_grouped_bf16_gemm_tn_contiguous(a, b, d, sizes, ks, d)


@pytest.mark.parametrize("unit", [64, 50], ids=["stages", "one by one"])
def test_sizes_of_the_host_are_those_of_all_groups(all_hosts: Context, unit: int) -> None:
    """Two for three groups, one that ends beyond k, a negative one, and groups that end before k."""
    k, ks = 3 * unit, torch.tensor([unit] * 3, dtype=torch.int32)
    a, b, d = matrix(k, 16).bfloat16(), matrix(k, 24).bfloat16(), torch.zeros(3, 16, 24)
    for sizes in [[unit, 2 * unit], [unit, unit, 2 * unit], [2 * unit, -unit, 2 * unit], [unit, unit, 0]]:
        with pytest.raises(
            ArgumentError, match=f"ks_cpu: expected the k of 3 groups, which add up to {k}; got"
        ):
            deep_gemm.k_grouped_bf16_gemm_tn_contiguous(a, b, d, sizes, ks)


def test_sizes_of_the_host_are_those_of_all_groups_of_fp8(all_hosts: Context) -> None:
    groups, d = torch.tensor([128, 128], dtype=torch.int32), torch.empty(2, 40, 40)
    flat = torch.zeros(40 * 256).to(torch.float8_e4m3fn), torch.ones(2, 40).mT
    for sizes in [[256], [128, 256], [128, 0], [384, -128]]:
        with pytest.raises(ArgumentError, match="ks_cpu: expected the k of 2 groups, which add up to 256"):
            deep_gemm.k_grouped_fp8_gemm_nt_contiguous(flat, flat, d, sizes, groups)


def test_sizes_along_k_that_are_no_whole_stages_are_refused(all_hosts: Context) -> None:
    """By kernels of the host, as kernels of a GPU would compute something else."""
    a, b = matrix(192, 16).bfloat16(), matrix(192, 24, seed=1).bfloat16()
    ks = torch.tensor([96, 0, 96], dtype=torch.int32)
    with pytest.raises(LaunchError):
        deep_gemm.k_grouped_bf16_gemm_tn_contiguous(a, b, torch.zeros(3, 16, 24), None, ks)


@pytest.mark.parametrize(
    ("value", "power"), [(0.0, -126), (2.0**-149, -126), (2.0**-126, -126), (1.5 * 2.0**-126, -125)]
)
def test_the_least_scale(value: float, power: int) -> None:
    assert deep_gemm.ceil_to_ue8m0(torch.tensor([value, -value])).tolist() == [2.0**power] * 2


@pytest.mark.parametrize("fp8", [True, False])
def test_what_is_expected_of_masked_groups_chooses_anew(all_hosts: Context, fp8: bool) -> None:
    (a, x), (b, y) = ready(matrix(2, 4, 256)), quantised(matrix(2, 128, 256, seed=1), (128, 128))
    counts, d = torch.tensor([4, 2], dtype=torch.int32), torch.zeros(2, 4, 128, dtype=torch.bfloat16)
    for expected_m in (1, 4, 1, 4):
        if fp8:
            deep_gemm.m_grouped_fp8_gemm_nt_masked(a, b, d, counts, expected_m)
        else:
            deep_gemm.m_grouped_bf16_gemm_nt_masked(x.bfloat16(), y.bfloat16(), d, counts, expected_m)
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


@pytest.mark.parametrize(("dtype", "unit"), [(torch.float32, 256), (torch.bfloat16, 512)])
@pytest.mark.parametrize("columns", [1, 256, 257, 700])
def test_rows_of_logits_are_whole_kilobytes(dtype: torch.dtype, unit: int, columns: int) -> None:
    from tilewright.compat.deep_gemm.attention import _rows  # noqa: PLC0415

    made = _rows(3, columns, dtype, torch.device("cpu"))
    assert made.shape == (3, columns)
    assert made.stride() == (-(-columns // unit) * unit, 1)
    assert layout_of(made)[0] == dtype


@pytest.mark.parametrize("fp8", [True, False])
def test_what_is_expected_of_groups_by_their_ends_chooses_anew(all_hosts: Context, fp8: bool) -> None:
    (a, x), (b, y) = ready(matrix(256, 256)), quantised(matrix(2, 128, 256, seed=1), (128, 128))
    ends, results = torch.tensor([4, 130], dtype=torch.int32), []
    for expected_m in (None, 4, 100, 4):
        d = torch.zeros(256, 128, dtype=torch.bfloat16)
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
