"""`tilewright.compat.deep_gemm` on a GPU: layouts and casts by kernels, times by the profiler."""

from __future__ import annotations

import pytest
import torch
from scaled_products import by_blocks, by_columns, by_rows, compare, exact

import tilewright
from tilewright import blockwise_scales
from tilewright.compat import deep_gemm
from tilewright.errors import ArgumentError, NotBuiltError

pytestmark = pytest.mark.marks_kernels


@pytest.fixture(autouse=True)
def built() -> None:
    """Everything here begins with scales and a quantised matrix."""
    x = torch.ones(4, 128, device="cuda", dtype=torch.bfloat16)
    try:
        tilewright.scale_columns(torch.ones(4, 4, device="cuda"))
        tilewright.quantize_fp8_blockwise(x)
    except NotBuiltError as error:
        pytest.skip(error.message)


def scales_of(*shape: int) -> torch.Tensor:
    return torch.randint(-20, 20, shape, device="cuda").float().exp2()


@pytest.mark.parametrize("batch", [(), (3,)])
def test_scales_for_tma(batch: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    scales = scales_of(*batch, 129, 57)
    made = deep_gemm.get_mn_major_tma_aligned_tensor(scales)
    assert torch.equal(made, scales)
    assert blockwise_scales.lies_m_major(made)
    packed = deep_gemm.get_mn_major_tma_aligned_packed_ue8m0_tensor(scales)
    assert torch.equal(packed, blockwise_scales.pack((scales.view(torch.int32) >> 23).to(torch.uint8)))
    assert blockwise_scales.lies_m_major(packed)


def test_scales_of_groups_of_rows_leave_gaps_alone() -> None:
    torch.manual_seed(0)
    scales, ends = scales_of(256, 9), torch.tensor([100, 200], dtype=torch.int32, device="cuda")
    expected = scales.clone()
    expected[100:128] = expected[200:] = 0
    packed = deep_gemm.get_mn_major_tma_aligned_packed_ue8m0_tensor(scales, ends)
    assert torch.equal(packed, deep_gemm.get_mn_major_tma_aligned_packed_ue8m0_tensor(expected))


@pytest.mark.parametrize("known", [True, False])
def test_scales_of_groups_along_k(known: bool) -> None:
    torch.manual_seed(0)
    sizes = [512, 0, 1280, 128]
    scales, ks = scales_of(sum(sizes) // 128, 64), torch.tensor(sizes, dtype=torch.int32, device="cuda")
    parts = [
        deep_gemm.get_mn_major_tma_aligned_packed_ue8m0_tensor(part.T.contiguous()).T
        for part in scales.split([size // 128 for size in sizes])
        if len(part)
    ]
    made = deep_gemm.get_k_grouped_mn_major_tma_aligned_packed_ue8m0_tensor(
        scales, ks, sizes if known else None, 128, 128
    )
    assert len(made) == (5 if known else 8)
    assert torch.equal(made[:5], torch.cat(parts))
    with pytest.raises(ArgumentError, match="2 sizes for 4 groups"):
        deep_gemm.get_k_grouped_mn_major_tma_aligned_packed_ue8m0_tensor(scales, ks, [128, 128], 128, 128)


@pytest.mark.parametrize("ue8m0", [False, True])
@pytest.mark.parametrize("shape", [(200, 1024), (129, 400), (384, 400)])
def test_casts_by_kernels_equal_those_by_torch(shape: tuple[int, int], ue8m0: bool) -> None:
    torch.manual_seed(0)
    x = torch.randn(shape, device="cuda", dtype=torch.bfloat16)
    whole = (deep_gemm.per_channel_cast_to_fp8,) if shape[0] % 128 == 0 else ()
    for cast in (deep_gemm.per_token_cast_to_fp8, deep_gemm.per_block_cast_to_fp8, *whole):
        data, scales = cast(x, ue8m0)
        by_torch, expected = cast(x.cpu(), ue8m0)
        assert torch.equal(data.cpu().view(torch.uint8), by_torch.view(torch.uint8))
        assert torch.equal(scales.cpu(), expected)


def test_times_of_kernels() -> None:
    x = torch.ones(4096, 4096, device="cuda", dtype=torch.bfloat16)
    ours, none = deep_gemm.testing.bench_kineto(
        lambda: tilewright.quantize_fp8_blockwise(x), ("gemm_", "nvjet"), num_tests=3
    )
    assert ours == none > 0  # neither is in the profile: both mean ours
    assert deep_gemm.testing.bench(lambda: x.add_(1), num_tests=3) > 0


def random(*shape: int) -> torch.Tensor:
    return torch.randn(shape, device="cuda", dtype=torch.bfloat16)


@pytest.mark.parametrize("m", [1, 128, 600])
@pytest.mark.parametrize(("n", "k"), [(2112, 1024), (576, 1536)])
def test_fp8_products(m: int, n: int, k: int) -> None:
    torch.manual_seed(0)
    a, b = random(m, k), random(1, n, k)
    d, c = torch.empty(m, n, device="cuda", dtype=torch.bfloat16), torch.randn(m, n, device="cuda") * 32
    data, scales = by_blocks(b)
    x, y, rows = by_rows(a), (data[0], scales[0]), by_rows(b[0])
    try:
        deep_gemm.fp8_gemm_nt(x, y, d)
    except NotBuiltError as error:
        pytest.skip(error.message)
    compare(d, exact(x) @ exact(y).mT, k)
    out = c.clone()
    deep_gemm.fp8_gemm_nt(x, rows, out, c=out, recipe=(1, 1, 128))
    compare(out, exact(x) @ exact(rows).mT + c, k)


@pytest.mark.parametrize("layout", ["nn", "tn", "tt"])
@pytest.mark.parametrize("m", [1, 77, 600])
def test_fp8_products_of_operands_that_lie_otherwise(m: int, layout: str) -> None:
    torch.manual_seed(0)
    n, k = 576, 1536
    a, b = random(m, k), random(1, n, k)
    d = torch.full((m, n), float("nan"), device="cuda", dtype=torch.bfloat16)
    data, scales = by_blocks(b)
    x, y = by_rows(a), (data[0], scales[0])
    expected = exact(x) @ exact(y).mT
    if layout[0] == "t":
        x = x[0].view(torch.uint8).mT.contiguous().view(x[0].dtype), x[1].mT
    if layout[1] == "n":
        y = y[0].view(torch.uint8).mT.contiguous().view(y[0].dtype), y[1].mT
    for _ in range(3):
        d.fill_(float("nan"))
        try:
            getattr(deep_gemm, f"fp8_gemm_{layout}")(x, y, d)
        except NotBuiltError as error:
            pytest.skip(error.message)
        compare(d, expected, k)


@pytest.mark.parametrize("b", [128, 384])
def test_fp8_einsums_of_operands_that_lie_otherwise(b: int) -> None:
    torch.manual_seed(0)
    h, r, d = 3, 256, 128
    x, y, z = random(b, h, d), random(h, d, r), torch.empty(b, h, r, device="cuda", dtype=torch.bfloat16)
    rows, blocks = by_rows(x), by_blocks(y)
    try:
        deep_gemm.fp8_einsum("bhd,hdr->bhr", rows, blocks, z)
    except NotBuiltError as error:
        pytest.skip(error.message)
    compare(z, torch.einsum("bhd,hdr->bhr", exact(rows), exact(blocks)), d)
    other = random(b, h, r)
    p, q = by_columns(x), by_columns(other)
    added = torch.randn(h, d, r, device="cuda")
    out = added.clone()
    deep_gemm.fp8_einsum("bhd,bhr->hdr", p, q, out, out, recipe=(1, 1, 128))
    compare(out, added + torch.einsum("bhd,bhr->hdr", exact(p), exact(q)), b)


def test_a_gap_in_each_head() -> None:
    torch.manual_seed(0)
    a, b = random(200, 512), random(1, 4 * 256, 512)
    data, scales = by_blocks(b)
    x = by_rows(a)
    d = torch.full((200, 4 * 320), 7.0, device="cuda", dtype=torch.bfloat16)
    try:
        deep_gemm.fp8_gemm_nt_skip_head_mid(x, (data[0], scales[0]), d, (128, 64, 128))
    except NotBuiltError as error:
        pytest.skip(error.message)
    product = (exact(x) @ exact((data[0], scales[0])).mT).view(200, 4, 256)
    heads = d.view(200, 4, 320)
    compare(heads[..., :128], product[..., :128], 512)
    compare(heads[..., 192:], product[..., 128:], 512)
    assert (heads[..., 128:192] == 7.0).all()


@pytest.mark.parametrize("ends", [True, False])
@pytest.mark.parametrize("fp8", [True, False])
def test_groups_of_rows_with_poisoned_padding(fp8: bool, ends: bool) -> None:
    torch.manual_seed(0)
    rows, n, k = [0, 1, 127, 128, 129, 0, 500], 512, 512
    starts, m = [], 0
    for count in rows:
        starts.append(m)
        m += -(-count // 128) * 128
    a, b = random(m, k), random(len(rows), n, k)
    groups = torch.full((m,), -1, device="cuda", dtype=torch.int32)
    for group, (start, count) in enumerate(zip(starts, rows, strict=True)):
        groups[start : start + count] = group
    layout = torch.tensor(
        [s + c for s, c in zip(starts, rows, strict=True)], device="cuda", dtype=torch.int32
    )
    layout = layout if ends else groups
    valid = groups >= 0
    d = torch.full((m, n), float("nan"), device="cuda", dtype=torch.bfloat16)
    (data, scales), weights = by_rows(a), by_blocks(b)
    x, y = (exact((data, scales)), exact(weights)) if fp8 else (a.double(), b.double())
    expected = torch.einsum("mk,mnk->mn", x[valid], y[groups[valid].long()])
    a[~valid] = float("nan")
    data.view(torch.uint8)[~valid], scales[~valid] = 0x7F, float("nan")
    try:
        if fp8:
            deep_gemm.m_grouped_fp8_gemm_nt_contiguous(
                (data, scales), weights, d, layout, use_psum_layout=ends
            )
        else:
            deep_gemm.m_grouped_bf16_gemm_nt_contiguous(a, b, d, layout, use_psum_layout=ends)
    except NotBuiltError as error:
        pytest.skip(error.message)
    compare(d[valid], expected, k, "e4m3" if fp8 else "bf16")
    assert not d[~valid].any()


def test_masked_groups_and_groups_along_k() -> None:
    torch.manual_seed(0)
    a, b = random(4, 256, 512), random(4, 384, 512)
    counts = torch.tensor([0, 1, 200, 256], device="cuda", dtype=torch.int32)
    d = torch.empty(4, 256, 384, device="cuda", dtype=torch.bfloat16)
    rows, blocks = by_rows(a), by_blocks(b)
    try:
        deep_gemm.m_grouped_fp8_gemm_nt_masked(rows, blocks, d, counts, 100)
    except NotBuiltError as error:
        pytest.skip(error.message)
    for group, count in enumerate(counts.tolist()):
        if count:
            compare(d[group, :count], exact(rows)[group, :count] @ exact(blocks)[group].mT, 512)
    sizes = [256, 0, 128]
    x, y, c = random(384, 128), random(384, 256), torch.randn(3, 128, 256, device="cuda")
    ks = torch.tensor(sizes, device="cuda", dtype=torch.int32)
    fp8, bf16 = c.clone(), c.clone()
    casts = by_columns(x), by_columns(y)
    deep_gemm.k_grouped_fp8_gemm_tn_contiguous(*casts, fp8, sizes, ks, fp8)
    deep_gemm.k_grouped_bf16_gemm_tn_contiguous(x, y, bf16, sizes, ks, bf16)
    compare(fp8, c.double() + by_groups(*map(exact, casts), sizes), 384)
    compare(bf16, c.double() + by_groups(x.double(), y.double(), sizes), 384, "bf16")
    ends = torch.tensor([256, 256, 356], device="cuda", dtype=torch.int32)  # the last group's end is 28 short
    for each in (x, y):
        each[356:] = 0
    fp8, bf16 = c.clone(), c.clone()
    casts = by_columns(x), by_columns(y)
    deep_gemm.k_grouped_fp8_gemm_tn_contiguous(*casts, fp8, None, ends, fp8, use_psum_layout=True)
    deep_gemm.k_grouped_bf16_gemm_tn_contiguous(x, y, bf16, None, ends, bf16, use_psum_layout=True)
    compare(fp8, c.double() + by_groups(*map(exact, casts), sizes), 384)
    compare(bf16, c.double() + by_groups(x.double(), y.double(), sizes), 384, "bf16")


def by_groups(x: torch.Tensor, y: torch.Tensor, sizes: list[int]) -> torch.Tensor:
    """x^T y for each group of rows of both."""
    pairs = zip(x.split(sizes), y.split(sizes), strict=True)
    return torch.stack([rows.mT @ others for rows, others in pairs])
