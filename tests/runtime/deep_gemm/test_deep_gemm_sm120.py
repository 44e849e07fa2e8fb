"""`tilewright.compat.deep_gemm` on SM120, described: each function finds a kernel, or says why there is none.

Nothing is compiled: where a kernel is chosen, the error says that it is not built.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from tilewright.architectures.device import RTX_PRO_6000
from tilewright.compat import deep_gemm
from tilewright.context import Context
from tilewright.errors import (
    ArgumentError,
    NotBuiltError,
    TilewrightError,
    UnsupportedDeviceError,
)

Call = Callable[[], object]


def bf16(*shape: int) -> torch.Tensor:
    return torch.zeros(shape, dtype=torch.bfloat16)


def fp8(*shape: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Data, and scales of 128 of its last dimension, whose rows are contiguous."""
    scales = torch.ones(*shape[:-2], shape[-1] // 128, shape[-2]).mT
    return torch.zeros(shape, dtype=torch.float8_e4m3fn), scales


def blocks(*shape: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Data, and scales of blocks of 128 x 128."""
    scales = torch.ones(*shape[:-2], shape[-2] // 128, shape[-1] // 128)
    return torch.zeros(shape, dtype=torch.float8_e4m3fn), scales


ROWS = torch.zeros(128, dtype=torch.int32)
ONE = torch.tensor([128], dtype=torch.int32)
SUMS = torch.zeros(128, 128)

# By the family that computes it.
CALLS: dict[str, dict[str, Call]] = {
    "gemm": {
        "bf16_gemm_nt": lambda: deep_gemm.bf16_gemm_nt(bf16(128, 64), bf16(128, 64), bf16(128, 128)),
        "bf16_gemm_nn": lambda: deep_gemm.bf16_gemm_nn(bf16(128, 64), bf16(64, 128), bf16(128, 128)),
        "bf16_gemm_tn": lambda: deep_gemm.bf16_gemm_tn(bf16(64, 128), bf16(64, 128), bf16(128, 128)),
        "bf16_gemm_tt": lambda: deep_gemm.bf16_gemm_tt(bf16(64, 128), bf16(128, 64), bf16(128, 128)),
        "einsum bhr,hdr->bhd": lambda: deep_gemm.einsum(
            "bhr,hdr->bhd", bf16(8, 2, 64), bf16(2, 128, 64), bf16(8, 2, 128)
        ),
        "einsum bhd,hdr->bhr": lambda: deep_gemm.einsum(
            "bhd,hdr->bhr", bf16(8, 2, 128), bf16(2, 128, 64), bf16(8, 2, 64)
        ),
    },
    "reduced_gemm": {
        "einsum bmk,bnk->mn": lambda: deep_gemm.einsum(
            "bmk,bnk->mn", bf16(4, 128, 64), bf16(4, 128, 64), torch.zeros(128, 128)
        ),
    },
    "grouped_gemm": {
        "fp8_gemm_nt": lambda: deep_gemm.fp8_gemm_nt(fp8(128, 256), blocks(128, 256), bf16(128, 128)),
        "fp8_gemm_nt (1, 1, 128)": lambda: deep_gemm.fp8_gemm_nt(
            fp8(128, 256), fp8(128, 256), SUMS, SUMS, recipe=(1, 1, 128)
        ),
        "fp8_gemm_nt_skip_head_mid": lambda: deep_gemm.fp8_gemm_nt_skip_head_mid(
            fp8(128, 256), blocks(128, 256), bf16(128, 192), (32, 32, 32)
        ),
        "fp8_einsum": lambda: deep_gemm.fp8_einsum(
            "bhr,hdr->bhd", fp8_by_head(128, 2, 256), blocks(2, 128, 256), bf16(128, 2, 128)
        ),
        "m_grouped_fp8_gemm_nt_contiguous": lambda: deep_gemm.m_grouped_fp8_gemm_nt_contiguous(
            fp8(128, 256), blocks(2, 128, 256), bf16(128, 128), ROWS
        ),
        "m_grouped_fp8_gemm_nt_contiguous, psum": lambda: deep_gemm.m_grouped_fp8_gemm_nt_contiguous(
            fp8(128, 256), blocks(1, 128, 256), bf16(128, 128), ONE, use_psum_layout=True
        ),
        "m_grouped_bf16_gemm_nt_contiguous": lambda: deep_gemm.m_grouped_bf16_gemm_nt_contiguous(
            bf16(128, 64), bf16(2, 128, 64), bf16(128, 128), ROWS
        ),
        "m_grouped_fp8_gemm_nt_masked": lambda: deep_gemm.m_grouped_fp8_gemm_nt_masked(
            fp8(1, 128, 256), blocks(1, 128, 256), bf16(1, 128, 128), ONE, 64
        ),
        "m_grouped_bf16_gemm_nt_masked": lambda: deep_gemm.m_grouped_bf16_gemm_nt_masked(
            bf16(1, 128, 64), bf16(1, 128, 64), bf16(1, 128, 128), ONE, 64
        ),
        "k_grouped_fp8_gemm_nt_contiguous": lambda: deep_gemm.k_grouped_fp8_gemm_nt_contiguous(
            flat(128, 128), flat(128, 128), SUMS[None], [128], ONE, SUMS[None]
        ),
        "k_grouped_bf16_gemm_tn_contiguous": lambda: deep_gemm.k_grouped_bf16_gemm_tn_contiguous(
            bf16(128, 128), bf16(128, 128), SUMS[None], [128], ONE, SUMS[None]
        ),
    },
    "transpose_fp8": {
        "fp8_gemm_nn, n contiguous": lambda: deep_gemm.fp8_gemm_nn(
            fp8(128, 256), mn_major(256, 128), bf16(128, 128)
        ),
    },
    "hc_prenorm": {
        "tf32_hc_prenorm_gemm": lambda: deep_gemm.tf32_hc_prenorm_gemm(
            bf16(128, 256), torch.zeros(24, 256), torch.zeros(128, 24), torch.zeros(128)
        ),
    },
    "mqa_logits": {
        "fp8_mqa_logits": lambda: deep_gemm.fp8_mqa_logits(
            fp8(1, 64, 128)[0].expand(8, 64, 128).contiguous(), (fp8(64, 128)[0], torch.ones(64)),
            torch.ones(8, 64), torch.zeros(8, dtype=torch.int32), torch.full((8,), 64, dtype=torch.int32),
        ),
    },
    "scale_columns": {
        "get_mn_major_tma_aligned_packed_ue8m0_tensor": lambda: (
            deep_gemm.get_mn_major_tma_aligned_packed_ue8m0_tensor(torch.ones(128, 2))
        ),
    },
}  # fmt: skip


def fp8_by_head(b: int, h: int, r: int) -> tuple[torch.Tensor, torch.Tensor]:
    data, scales = fp8(h, b, r)
    return data.transpose(0, 1), scales.transpose(0, 1)


def flat(rows: int, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    data, scales = fp8(rows, k)
    return data.flatten(), scales


def mn_major(k: int, n: int) -> tuple[torch.Tensor, torch.Tensor]:
    """B [k, n] with n contiguous, and its scales of blocks."""
    data, scales = blocks(n, k)
    return data.mT.contiguous(), scales.mT


@pytest.mark.parametrize(
    ("family", "name"), [(family, name) for family, calls in CALLS.items() for name in calls]
)
def test_a_kernel_or_the_reason(sm120: Context, family: str, name: str) -> None:
    with pytest.raises(TilewrightError) as caught:
        CALLS[family][name]()
    error = caught.value
    if sm120.registry.runnable(family, RTX_PRO_6000.capability):
        assert isinstance(error, NotBuiltError), error
        assert error.message.startswith(f"{family}_sm120f"), error
    else:
        assert isinstance(error, UnsupportedDeviceError), error
        assert error.message.startswith(f"no {family} kernel runs on {RTX_PRO_6000.name}"), error
        assert error.hint


def test_what_has_no_kernel_anywhere_names_the_argument(sm120: Context) -> None:
    """Groups of k of FP4, and blocks of 64."""
    packed = torch.zeros(128 * 64, dtype=torch.int8), torch.zeros(1, 128, dtype=torch.int32).mT
    with pytest.raises(ArgumentError, match=r"a: it is torch\.int8; no kernel multiplies groups of k of FP4"):
        deep_gemm.k_grouped_fp8_gemm_nt_contiguous(
            packed, packed, SUMS[None], [128], ONE, SUMS[None], (1, 1, 32)
        )
    with pytest.raises(ArgumentError, match="recipe"):
        deep_gemm.fp8_fp4_gemm_nt(fp8(128, 256), fp8(128, 256), bf16(128, 128), recipe=(1, 1, 64))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize(("heads", "kernel"), [(8, 16), (16, 16), (32, 32), (64, 64)])
def test_logits_of_few_heads_and_weights_of_16_bits(
    sm120: Context, heads: int, kernel: int, dtype: torch.dtype
) -> None:
    q, weights = torch.zeros(8, heads, 128, dtype=torch.float8_e4m3fn), torch.ones(8, heads, dtype=dtype)
    keys = torch.zeros(64, 128, dtype=torch.float8_e4m3fn), torch.ones(64)
    ranges = torch.zeros(8, dtype=torch.int32), torch.full((8,), 64, dtype=torch.int32)
    with pytest.raises(NotBuiltError, match=f"mqa_logits_sm120f_ragged_{kernel}x128_f32"):
        deep_gemm.fp8_mqa_logits(q, keys, weights, *ranges)


def test_other_weights_of_logits_are_refused(sm120: Context) -> None:
    """Weights of another number of heads than q's are no padding; F64 is no type of theirs."""
    q = torch.zeros(8, 8, 128, dtype=torch.float8_e4m3fn)
    keys = torch.zeros(64, 128, dtype=torch.float8_e4m3fn), torch.ones(64)
    ranges = torch.zeros(8, dtype=torch.int32), torch.full((8,), 64, dtype=torch.int32)
    for weights in (torch.ones(8, 16), torch.ones(8, 8, dtype=torch.float64)):
        with pytest.raises(TilewrightError, match="weights"):
            deep_gemm.fp8_mqa_logits(q, keys, weights, *ranges)


@pytest.mark.parametrize(
    ("expected_m", "alignment"),
    [(None, 128), (0, 32), (6, 32), (32, 32), (33, 64), (64, 64), (65, 128), (4096, 128)],
)
def test_the_recommended_alignment(
    sm120: Context, monkeypatch: pytest.MonkeyPatch, expected_m: int | None, alignment: int
) -> None:
    recommended = deep_gemm.get_theoretical_mk_alignment_for_contiguous_layout
    assert recommended(expected_m) == alignment
    for capability in ((9, 0), (10, 0)):
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda *device, is_of=capability: is_of)
        assert recommended(expected_m) == 128
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert recommended(expected_m) == 128


def test_an_alignment_for_fewer_than_no_rows() -> None:
    with pytest.raises(ArgumentError, match="expected 0 or more rows"):
        deep_gemm.get_theoretical_mk_alignment_for_contiguous_layout(-1)
