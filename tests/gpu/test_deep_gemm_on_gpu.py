"""`tilewright.compat.deep_gemm` on a GPU: layouts and casts by kernels, times by the profiler."""

from __future__ import annotations

import pytest
import torch

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
    wanted = scales.clone()
    wanted[100:128] = wanted[200:] = 0
    packed = deep_gemm.get_mn_major_tma_aligned_packed_ue8m0_tensor(scales, ends)
    assert torch.equal(packed, deep_gemm.get_mn_major_tma_aligned_packed_ue8m0_tensor(wanted))


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
        by_torch, wanted = cast(x.cpu(), ue8m0)
        assert torch.equal(data.cpu().view(torch.uint8), by_torch.view(torch.uint8))
        assert torch.equal(scales.cpu(), wanted)


def test_times_of_kernels() -> None:
    x = torch.ones(4096, 4096, device="cuda", dtype=torch.bfloat16)
    ours, none = deep_gemm.testing.bench_kineto(
        lambda: tilewright.quantize_fp8_blockwise(x), ("gemm_", "nvjet"), num_tests=3
    )
    assert ours == none > 0  # neither is in the profile: both mean ours
    assert deep_gemm.testing.bench(lambda: x.add_(1), num_tests=3) > 0


def compare(found: torch.Tensor, wanted: torch.Tensor, most: float = 1e-3) -> None:
    """`wanted` is the product before quantising; `most`, DeepGEMM's own threshold."""
    assert deep_gemm.testing.calc_diff(found, wanted) < most


def random(*shape: int) -> torch.Tensor:
    return torch.randn(shape, device="cuda", dtype=torch.bfloat16)


def by_rows(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    data, scales = deep_gemm.per_token_cast_to_fp8(x.reshape(-1, x.shape[-1]), False)
    return data.view(x.shape), scales.view(*x.shape[:-1], -1)


def by_blocks(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    pairs = [deep_gemm.per_block_cast_to_fp8(one, False) for one in x]
    data = torch.stack([data.view(torch.uint8) for data, _ in pairs]).view(torch.float8_e4m3fn)
    return data, torch.stack([scales for _, scales in pairs])


@pytest.mark.parametrize("m", [1, 128, 600])
@pytest.mark.parametrize(("n", "k"), [(2112, 1024), (576, 1536)])
def test_fp8_products(m: int, n: int, k: int) -> None:
    torch.manual_seed(0)
    a, b = random(m, k), random(1, n, k)
    d, c = torch.empty(m, n, device="cuda", dtype=torch.bfloat16), torch.randn(m, n, device="cuda") * 32
    data, scales = by_blocks(b)
    wanted = a.double() @ b[0].double().mT
    try:
        deep_gemm.fp8_gemm_nt(by_rows(a), (data[0], scales[0]), d)
    except NotBuiltError as error:
        pytest.skip(error.message)
    compare(d, wanted)
    out = c.clone()
    deep_gemm.fp8_gemm_nt(by_rows(a), by_rows(b[0]), out, c=out, recipe=(1, 1, 128))
    compare(out, wanted + c)


@pytest.mark.parametrize("layout", ["nn", "tn", "tt"])
@pytest.mark.parametrize("m", [1, 77, 600])
def test_fp8_products_of_operands_that_lie_otherwise(m: int, layout: str) -> None:
    torch.manual_seed(0)
    n, k = 576, 1536
    a, b = random(m, k), random(1, n, k)
    d = torch.full((m, n), float("nan"), device="cuda", dtype=torch.bfloat16)
    data, scales = by_blocks(b)
    x, y = by_rows(a), (data[0], scales[0])
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
        compare(d, a.double() @ b[0].double().mT)


@pytest.mark.parametrize("b", [128, 384])
def test_fp8_einsums_of_operands_that_lie_otherwise(b: int) -> None:
    torch.manual_seed(0)
    h, r, d = 3, 256, 128
    x, y, z = random(b, h, d), random(h, d, r), torch.empty(b, h, r, device="cuda", dtype=torch.bfloat16)
    try:
        deep_gemm.fp8_einsum("bhd,hdr->bhr", by_rows(x), by_blocks(y), z)
    except NotBuiltError as error:
        pytest.skip(error.message)
    compare(z, torch.einsum("bhd,hdr->bhr", x.double(), y.double()))
    other = random(b, h, r)
    pairs = [deep_gemm.per_channel_cast_to_fp8(each.flatten(1), False) for each in (x, other)]
    (p, s), (q, t) = (
        (data.view(each.shape), scales.view(b // 128, *each.shape[1:]))
        for (data, scales), each in zip(pairs, (x, other), strict=True)
    )
    added = torch.randn(h, d, r, device="cuda")
    out = added.clone()
    deep_gemm.fp8_einsum("bhd,bhr->hdr", (p, s), (q, t), out, out, recipe=(1, 1, 128))
    compare(out, added + torch.einsum("bhd,bhr->hdr", x.double(), other.double()))


def test_a_gap_in_each_head() -> None:
    torch.manual_seed(0)
    a, b = random(200, 512), random(1, 4 * 256, 512)
    data, scales = by_blocks(b)
    d = torch.full((200, 4 * 320), 7.0, device="cuda", dtype=torch.bfloat16)
    try:
        deep_gemm.fp8_gemm_nt_skip_head_mid(by_rows(a), (data[0], scales[0]), d, (128, 64, 128))
    except NotBuiltError as error:
        pytest.skip(error.message)
    heads, product = d.view(200, 4, 320), (a.double() @ b[0].double().mT).view(200, 4, 256)
    compare(heads[..., :128], product[..., :128])
    compare(heads[..., 192:], product[..., 128:])
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
    wanted = torch.einsum("mk,mnk->mn", a[valid].double(), b[groups[valid].long()].double())
    d = torch.full((m, n), float("nan"), device="cuda", dtype=torch.bfloat16)
    (data, scales), weights = by_rows(a), by_blocks(b)
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
    compare(d[valid], wanted, 1e-3 if fp8 else 1e-5)
    assert not d[~valid].any()


def test_masked_groups_and_groups_along_k() -> None:
    torch.manual_seed(0)
    a, b = random(4, 256, 512), random(4, 384, 512)
    counts = torch.tensor([0, 1, 200, 256], device="cuda", dtype=torch.int32)
    d = torch.empty(4, 256, 384, device="cuda", dtype=torch.bfloat16)
    try:
        deep_gemm.m_grouped_fp8_gemm_nt_masked(by_rows(a), by_blocks(b), d, counts, 100)
    except NotBuiltError as error:
        pytest.skip(error.message)
    for group, count in enumerate(counts.tolist()):
        if count:
            compare(d[group, :count], a[group, :count].double() @ b[group].double().mT)
    sizes = [256, 0, 128]
    x, y, c = random(384, 128), random(384, 256), torch.randn(3, 128, 256, device="cuda")
    ks, first, wanted = torch.tensor(sizes, device="cuda", dtype=torch.int32), 0, c.double()
    for group, size in enumerate(sizes):
        wanted[group] += x[first : first + size].double().mT @ y[first : first + size].double()
        first += size
    fp8, bf16 = c.clone(), c.clone()
    cast = [deep_gemm.per_channel_cast_to_fp8(each, False) for each in (x, y)]
    deep_gemm.k_grouped_fp8_gemm_tn_contiguous(cast[0], cast[1], fp8, sizes, ks, fp8)
    deep_gemm.k_grouped_bf16_gemm_tn_contiguous(x, y, bf16, sizes, ks, bf16)
    compare(fp8, wanted)
    compare(bf16, wanted, 1e-5)
    ends = torch.tensor([256, 256, 356], device="cuda", dtype=torch.int32)  # the last group's end is 28 short
    for each in (x, y):
        each[356:] = 0
    wanted = c.double() + torch.stack(
        [p.double().mT @ q.double() for p, q in zip(x.split(sizes), y.split(sizes), strict=True)]
    )
    fp8, bf16 = c.clone(), c.clone()
    cast = [deep_gemm.per_channel_cast_to_fp8(each, False) for each in (x, y)]
    deep_gemm.k_grouped_fp8_gemm_tn_contiguous(cast[0], cast[1], fp8, None, ends, fp8, use_psum_layout=True)
    deep_gemm.k_grouped_bf16_gemm_tn_contiguous(x, y, bf16, None, ends, bf16, use_psum_layout=True)
    compare(fp8, wanted)
    compare(bf16, wanted, 1e-5)
