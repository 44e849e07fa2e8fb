"""Products of `tilewright.compat.deep_gemm` whose groups divide k, by kernels of the host."""

from __future__ import annotations

import pytest
import torch
from deep_gemm_operands import close, matrix, quantised

from tilewright.compat import deep_gemm
from tilewright.context import Context
from tilewright.errors import ArgumentError, LaunchError, NoKernelError


@pytest.mark.parametrize("layout", ["nt", "tn"])
def test_groups_along_k(all_hosts: Context, layout: str) -> None:
    sizes, m, n = [256, 0, 128], 16, 24
    total = sum(sizes)
    (a, x), (b, y) = quantised(matrix(m, total)), quantised(matrix(n, total, seed=1))
    d = matrix(3, m, n, seed=2)
    parts = [(p.double(), q.double()) for p, q in zip(x.split(sizes, 1), y.split(sizes, 1), strict=True)]
    expected = torch.stack([c.double() + p @ q.mT for c, (p, q) in zip(d, parts, strict=True)])
    ks = torch.tensor(sizes, dtype=torch.int32)
    if layout == "nt":
        parted = [data.view(torch.uint8).split(sizes, 1) for data, _ in (a, b)]
        flat = [torch.cat([part.flatten() for part in each]).view(a[0].dtype) for each in parted]
        deep_gemm.k_grouped_fp8_gemm_nt_contiguous((flat[0], a[1]), (flat[1], b[1]), d, sizes, ks, d)
    else:
        turned = [
            (data.view(torch.uint8).mT.contiguous().view(data.dtype), s.mT.contiguous()) for data, s in (a, b)
        ]
        deep_gemm.k_grouped_fp8_gemm_tn_contiguous(*turned, d, sizes, ks, d)
    close(d, expected)


@pytest.mark.parametrize("sixteen", [False, True])
@pytest.mark.parametrize("multiple", [128, 64, 96])
def test_groups_along_k_by_their_ends(
    all_hosts: Context, alignment: None, sixteen: bool, multiple: int
) -> None:
    """Between a group's end and where the next one begins, k is 0."""
    sizes, m, n = [200, 0, 100], 16, 24
    padded = [-(-size // multiple) * multiple for size in sizes]
    values = matrix(sum(padded), m), matrix(sum(padded), n, seed=1)
    ends, start = [], 0
    for size, whole in zip(sizes, padded, strict=True):
        ends.append(start + size)
        for each in values:
            each[ends[-1] : start + whole] = 0
        start += whole
    layout, d = torch.tensor(ends, dtype=torch.int32), matrix(3, m, n, seed=2)
    deep_gemm.set_mk_alignment_for_contiguous_layout(multiple)
    if sixteen:
        a, b = (each.bfloat16() for each in values)
        x, y = a.double(), b.double()
        call = lambda: deep_gemm.k_grouped_bf16_gemm_tn_contiguous(  # noqa: E731
            a, b, d, padded, layout, d, use_psum_layout=True
        )
    else:
        (p, x), (q, y) = (
            (each, values.mT) for each, values in (quantised(v.mT.contiguous()) for v in values)
        )
        turned = [(data.view(torch.uint8).mT.contiguous().view(data.dtype), s.mT) for data, s in (p, q)]
        call = lambda: deep_gemm.k_grouped_fp8_gemm_tn_contiguous(  # noqa: E731
            *turned, d, None, layout, d, use_psum_layout=True
        )
    if multiple % 64 or (multiple != 128 and not sixteen):
        with pytest.raises(ArgumentError, match=f"use_psum_layout: .* at multiples of {multiple}"):
            call()
        return
    parts = zip(d, x.double().split(padded), y.double().split(padded), strict=True)
    expected = torch.stack([c.double() + left.mT @ right for c, left, right in parts])
    call()
    close(d, expected)


@pytest.mark.parametrize("sizes", [[128, 0, 64], [96, 0, 40]], ids=["one launch", "a launch for each"])
def test_groups_of_16_bits_along_k(all_hosts: Context, sizes: list[int]) -> None:
    ks = torch.tensor(sizes, dtype=torch.int32)
    for seed in range(2):
        a, b = matrix(sum(sizes), 16, seed=seed).bfloat16(), matrix(sum(sizes), 24, seed=seed + 2).bfloat16()
        d = matrix(3, 16, 24, seed=seed).to(torch.float32 if sizes[0] == 128 else torch.bfloat16)
        parts = zip(d, a.double().split(sizes), b.double().split(sizes), strict=True)
        expected = torch.stack([c.double() + x.mT @ y for c, x, y in parts])
        deep_gemm.k_grouped_bf16_gemm_tn_contiguous(a, b, d, sizes, ks, d)
        close(d, expected)
    launches = [key for key in all_hosts.plans if key[0] == "grouped_gemm_k"]
    assert len(launches) == (sizes[0] == 128)


def test_rows_of_parts_by_index(all_hosts: Context) -> None:
    a, b = matrix(40, 16).bfloat16(), matrix(192, 24, seed=1).bfloat16()
    rows = torch.randint(0, 40, (192,), generator=torch.Generator().manual_seed(0))
    start, end = torch.tensor([0, 128]), torch.tensor([128, 192])
    d = matrix(2, 16, 24, seed=2)
    taken, kept = a[rows].double(), d.double()
    expected = torch.stack([taken[i:j].mT @ b[i:j].double() for i, j in ((0, 128), (128, 192))])
    deep_gemm.legacy.a_fused_k_grouped_bf16_gemm_tn_contiguous_tl(a, b, d, (rows, start, end), acc=True)
    close(d, expected + kept)
    e = torch.full((2, 24, 16), torch.nan)
    deep_gemm.legacy.b_fused_k_grouped_bf16_gemm_tn_contiguous_tl(b, a, e, (rows, start, end), acc=False)
    close(e, expected.mT)


@pytest.mark.parametrize("with_c", [False, True])
@pytest.mark.parametrize("layout", ["nt", "tn"])
@pytest.mark.parametrize("m", [0, 40])
def test_no_group_has_any_k(all_hosts: Context, m: int, layout: str, with_c: bool) -> None:
    """As of experts none of which has got a token."""
    n, fp8 = 24, torch.float8_e4m3fn
    d = torch.full((2, m, n), float("nan"))
    c = torch.randn(2, m, n) if with_c else None
    a, b = ((torch.empty(0, dtype=fp8), torch.empty(rows, 0)) for rows in (m, n))
    if layout == "tn":
        a, b = ((torch.empty(0, rows, dtype=fp8), torch.empty(0, rows)) for rows in (m, n))
    function = getattr(deep_gemm, f"k_grouped_fp8_gemm_{layout}_contiguous")
    for _ in range(2):
        function(a, b, d.fill_(float("nan")), [0, 0], torch.zeros(2, dtype=torch.int32), c)
        assert torch.equal(d, torch.zeros_like(d) if c is None else c)


def test_data_and_scales_of_another_k_are_refused(all_hosts: Context) -> None:
    (x, of_x), (y, of_y) = (quantised(matrix(40, 256, seed=seed))[0] for seed in range(2))
    sizes = torch.tensor([128, 128], dtype=torch.int32)
    with pytest.raises(ArgumentError, match="a: it has 10200 elements; expected 40 rows of 256"):
        deep_gemm.k_grouped_fp8_gemm_nt_contiguous(
            (x.flatten()[40:], of_x), (y.flatten(), of_y), torch.empty(2, 40, 40), None, sizes
        )


def test_parts_of_k_that_are_no_whole_stages_are_refused_where_the_host_knows(all_hosts: Context) -> None:
    (x, of_x), (y, of_y) = (quantised(matrix(40, 256, seed=seed))[0] for seed in range(2))
    sizes = [100, 156]
    operands = (x.flatten(), of_x), (y.flatten(), of_y), torch.empty(2, 40, 40)
    with pytest.raises(ArgumentError, match=r"ks_cpu: expected multiples of 128, got \[100, 156\]"):
        deep_gemm.k_grouped_fp8_gemm_nt_contiguous(*operands, sizes, torch.tensor(sizes, dtype=torch.int32))


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
