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
@pytest.mark.parametrize("shape", [(200, 1024), (129, 400)])
def test_casts_by_kernels_equal_those_by_torch(shape: tuple[int, int], ue8m0: bool) -> None:
    torch.manual_seed(0)
    x = torch.randn(shape, device="cuda", dtype=torch.bfloat16)
    for cast in (deep_gemm.per_token_cast_to_fp8, deep_gemm.per_block_cast_to_fp8):
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
