"""`tilewright.compat.deep_gemm` on B200, B300 and Thor, described: a kernel for each function, or the reason.

Nothing is compiled: where a kernel is chosen, the error says that it is not built. Products run on the host
in `test_block_scaled.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from tilewright import context as contexts
from tilewright.architectures.device import B200, B300, THOR, DeviceProperties
from tilewright.compat import deep_gemm
from tilewright.compat.deep_gemm import block_scaled
from tilewright.context import Context
from tilewright.errors import (
    NoKernelError,
    NotBuiltError,
    TilewrightError,
)

Call = Callable[[], object]
TARGETS = {B200: ("sm100f",), B300: ("sm100f", "sm103"), THOR: ("sm110", "sm110f")}


@pytest.fixture(params=TARGETS, ids=lambda device: device.name.split()[-1])
def device(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[DeviceProperties]:
    described: DeviceProperties = request.param
    monkeypatch.setenv("TILEWRIGHT_JIT", "0")
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda *device: described.capability)
    with contexts.use(Context(described=described)):
        yield described


def bf16(*shape: int) -> torch.Tensor:
    return torch.zeros(shape, dtype=torch.bfloat16)


def fp8(*shape: int, block: int = 128) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.zeros(shape, dtype=torch.float8_e4m3fn), torch.ones(*shape[:-1], shape[-1] // block)


def fp4(*shape: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.zeros(*shape[:-1], shape[-1] // 2, dtype=torch.int8), torch.ones(
        *shape[:-1], shape[-1] // 32
    )


def squares(*shape: int) -> tuple[torch.Tensor, torch.Tensor]:
    scales = torch.ones(*shape[:-2], shape[-2] // 128, shape[-1] // 128)
    return torch.zeros(shape, dtype=torch.float8_e4m3fn), scales


ROWS = torch.zeros(128, dtype=torch.int32)
ONE = torch.tensor([128], dtype=torch.int32)
SUMS = torch.zeros(128, 128)
MIXED = {"recipe_a": (1, 128), "recipe_b": (1, 32)}

# By the family of the product, or of the only kernel that a function launches.
CALLS: dict[str, dict[str, Call]] = {
    "blockscaled_gemm": {
        "fp8_gemm_nt": lambda: deep_gemm.fp8_gemm_nt(fp8(128, 256), squares(128, 256), bf16(128, 128)),
        "fp8_gemm_nt, f32": lambda: deep_gemm.fp8_gemm_nt(fp8(128, 256), squares(128, 256), SUMS),
        "fp8_gemm_nn": lambda: deep_gemm.fp8_gemm_nn(
            fp8(128, 256), tuple(part.mT for part in squares(128, 256)), bf16(128, 128)
        ),
        "fp8_fp4_gemm_nt": lambda: deep_gemm.fp8_fp4_gemm_nt(
            fp8(128, 256), fp4(128, 256), bf16(128, 128), **MIXED
        ),
        "fp8_fp4_gemm_nt of FP4": lambda: deep_gemm.fp8_fp4_gemm_nt(
            fp4(128, 256), fp4(128, 256), bf16(128, 128), recipe=(1, 1, 32)
        ),
        "fp8_einsum": lambda: deep_gemm.fp8_einsum(
            "bhr,hdr->bhd", fp8(128, 2, 256), squares(2, 128, 256), bf16(128, 2, 128)
        ),
        "fp8_gemm_nt_skip_head_mid": lambda: deep_gemm.fp8_gemm_nt_skip_head_mid(
            fp8(128, 256), squares(128, 256), bf16(128, 192), (32, 32, 32)
        ),
        "k_grouped_fp8_gemm_nt_contiguous": lambda: deep_gemm.k_grouped_fp8_gemm_nt_contiguous(
            flat(128, 128), flat(128, 128), SUMS[None], [128], ONE
        ),
    },
    "gemm": {
        "bf16_gemm_nt": lambda: deep_gemm.bf16_gemm_nt(bf16(128, 64), bf16(128, 64), bf16(128, 128)),
        "bf16_gemm_nn": lambda: deep_gemm.bf16_gemm_nn(bf16(128, 64), bf16(64, 128), bf16(128, 128)),
        "bf16_gemm_tt with C": lambda: deep_gemm.bf16_gemm_tt(bf16(64, 128), bf16(128, 64), SUMS, SUMS),
        "einsum bhr,hdr->bhd": lambda: deep_gemm.einsum(
            "bhr,hdr->bhd", bf16(8, 2, 64), bf16(2, 128, 64), bf16(8, 2, 128)
        ),
        "einsum bhd,hdr->bhr": lambda: deep_gemm.einsum(
            "bhd,hdr->bhr", bf16(8, 2, 128), bf16(2, 128, 64), bf16(8, 2, 64)
        ),
        "einsum bmk,bnk->mn": lambda: deep_gemm.einsum(
            "bmk,bnk->mn", bf16(4, 128, 64), bf16(4, 128, 64), SUMS
        ),
        "k_grouped_bf16_gemm_tn_contiguous": lambda: deep_gemm.k_grouped_bf16_gemm_tn_contiguous(
            bf16(128, 128), bf16(128, 128), SUMS[None], [128], ONE, SUMS[None]
        ),
    },
    "transpose_fp8": {
        "fp8_gemm_nn, n contiguous": lambda: deep_gemm.fp8_gemm_nn(
            fp8(128, 256), tuple(part.mT.contiguous() for part in squares(128, 256)), bf16(128, 128)
        ),
    },
    "scale_columns": {  # FP32 scales are packed first
        "k_grouped_fp8_gemm_nt_contiguous, no sizes": lambda: deep_gemm.k_grouped_fp8_gemm_nt_contiguous(
            flat(128, 128), flat(128, 128), SUMS[None], None, ONE, SUMS[None]
        ),
        "get_mn_major_tma_aligned_packed_ue8m0_tensor": lambda: (
            deep_gemm.get_mn_major_tma_aligned_packed_ue8m0_tensor(torch.ones(128, 2))
        ),
        "transform_sf_into_required_layout": lambda: deep_gemm.transform_sf_into_required_layout(
            torch.ones(128, 8), 128, 256, (1, 32)
        ),
    },
    "hc_prenorm": {
        "tf32_hc_prenorm_gemm": lambda: deep_gemm.tf32_hc_prenorm_gemm(
            bf16(128, 256), torch.zeros(24, 256), torch.zeros(128, 24), torch.zeros(128)
        ),
    },
    "mqa_logits": {
        "fp8_mqa_logits": lambda: deep_gemm.fp8_mqa_logits(
            fp8(8, 64, 128)[0], (fp8(64, 128)[0], torch.ones(64)),
            torch.ones(8, 64), torch.zeros(8, dtype=torch.int32), torch.full((8,), 64, dtype=torch.int32),
        ),
    },
}  # fmt: skip


def flat(rows: int, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    data, scales = fp8(rows, k)
    return data.flatten(), scales


@pytest.mark.parametrize(
    ("family", "name"), [(family, name) for family, calls in CALLS.items() for name in calls]
)
def test_a_kernel_or_the_reason(
    device: DeviceProperties, monkeypatch: pytest.MonkeyPatch, family: str, name: str
) -> None:
    if family in ("blockscaled_gemm", "transpose_fp8"):  # scales as a kernel, which is not built, writes them
        monkeypatch.setattr(block_scaled, "_converted", ready)
    with pytest.raises(TilewrightError) as caught:
        CALLS[family][name]()
    error = caught.value
    assert isinstance(error, NotBuiltError), error
    assert error.message.startswith(tuple(f"{family}_{target}_" for target in TARGETS[device])) or (
        error.message.startswith(tuple(f"{family}_{target} " for target in TARGETS[device]))
    ), error


def ready(scales: torch.Tensor, block: int, rows: int, k: int) -> torch.Tensor:
    padded = (-(-rows // 128) * 128, -(-k // 128) * 4)
    return torch.zeros(*scales.shape[:-2], *padded, dtype=torch.uint8).view(torch.float8_e8m0fnu)


def test_scales_are_converted_first(device: DeviceProperties) -> None:
    with pytest.raises(NotBuiltError, match=rf"scale_columns_{TARGETS[device][0][:5]}\w*_128x4"):
        deep_gemm.fp8_gemm_nt(fp8(128, 256), squares(128, 256), bf16(128, 128))


# Groups of rows that the device reads.
GROUPS: dict[str, Call] = {
    "m_grouped_fp8_gemm_nt_contiguous": lambda: deep_gemm.m_grouped_fp8_gemm_nt_contiguous(
        words(128, 256), words(2, 128, 256), bf16(128, 128), ROWS
    ),
    "m_grouped_fp8_gemm_nt_contiguous, psum": lambda: deep_gemm.m_grouped_fp8_gemm_nt_contiguous(
        words(128, 256), words(1, 128, 256), bf16(128, 128), ONE, use_psum_layout=True
    ),
    "m_grouped_fp8_gemm_nn_contiguous": lambda: deep_gemm.m_grouped_fp8_gemm_nn_contiguous(
        words(128, 256), tuple(part.mT for part in words(2, 128, 256)), bf16(128, 128), ROWS
    ),
    "m_grouped_fp8_fp4_gemm_nt_contiguous": lambda: deep_gemm.m_grouped_fp8_fp4_gemm_nt_contiguous(
        words(128, 256, block=32), fp4_words(2, 128, 256), bf16(128, 128), ROWS, recipe=(1, 1, 32)
    ),
    "m_grouped_fp8_fp4_gemm_nt_contiguous of FP4": lambda: deep_gemm.m_grouped_fp8_fp4_gemm_nt_contiguous(
        fp4_words(128, 256), fp4_words(2, 128, 256), bf16(128, 128), ROWS, recipe=(1, 1, 32)
    ),
    "m_grouped_bf16_gemm_nt_contiguous": lambda: deep_gemm.m_grouped_bf16_gemm_nt_contiguous(
        bf16(128, 64), bf16(2, 128, 64), bf16(128, 128), ROWS
    ),
    "m_grouped_bf16_gemm_nt_masked": lambda: deep_gemm.m_grouped_bf16_gemm_nt_masked(
        bf16(1, 128, 64), bf16(1, 128, 64), bf16(1, 128, 128), ONE, 64
    ),
    "m_grouped_fp8_gemm_nt_masked": lambda: deep_gemm.m_grouped_fp8_gemm_nt_masked(
        words(1, 128, 256), words(1, 128, 256), bf16(1, 128, 128), ONE, 64
    ),
    "k_grouped_fp8_gemm_nt_contiguous, packed": lambda: deep_gemm.k_grouped_fp8_gemm_nt_contiguous(
        (flat(128, 128)[0], packed(128, 1)), (flat(128, 128)[0], packed(128, 1)), SUMS[None], None, ONE
    ),
}
# Those that no kernel for tcgen05 multiplies, with what the message says.
LACKING: dict[str, tuple[Call, str]] = {
    "k_grouped_bf16_gemm_tn_contiguous, no sizes": (
        lambda: deep_gemm.k_grouped_bf16_gemm_tn_contiguous(
            bf16(128, 128), bf16(128, 128), SUMS[None], None, ONE
        ),
        "its a is ",
    ),
}


def words(*shape: int, block: int = 128) -> tuple[torch.Tensor, torch.Tensor]:
    """FP8 with packed scales, which lie as TMA reads them."""
    return torch.zeros(shape, dtype=torch.float8_e4m3fn), packed(*shape[:-1], shape[-1] // block)


def fp4_words(*shape: int) -> tuple[torch.Tensor, torch.Tensor]:
    return fp4(*shape)[0], packed(*shape[:-1], shape[-1] // 32)


def packed(*shape: int) -> torch.Tensor:
    return torch.zeros(*shape[:-2], -(-shape[-1] // 4), shape[-2], dtype=torch.int32).mT


@pytest.mark.parametrize("name", GROUPS)
def test_groups_of_rows_that_the_device_reads(device: DeviceProperties, name: str) -> None:
    with pytest.raises(TilewrightError) as caught:
        GROUPS[name]()
    error = caught.value
    assert isinstance(error, NotBuiltError), error
    assert error.message.startswith(f"grouped_gemm_{TARGETS[device][0]}_"), error


@pytest.mark.parametrize("name", LACKING)
def test_what_no_kernel_multiplies(device: DeviceProperties, name: str) -> None:
    call, reason = LACKING[name]
    with pytest.raises(TilewrightError) as caught:
        call()
    error = caught.value
    assert isinstance(error, NoKernelError), error
    assert reason in str(error), error


def columns(*shape: int) -> tuple[torch.Tensor, torch.Tensor]:
    """FP8 with FP32 scales that lie as TMA reads them: m contiguous."""
    return fp8(*shape)[0], torch.ones(*shape[:-2], shape[-1] // 128, shape[-2]).mT


@pytest.mark.parametrize(
    "call",
    [
        lambda: deep_gemm.fp8_gemm_nt(
            columns(128, 256), squares(128, 256), bf16(128, 128), disable_ue8m0_cast=True
        ),
        lambda: deep_gemm.m_grouped_fp8_gemm_nt_contiguous(
            columns(128, 256), squares(2, 128, 256), bf16(128, 128), ROWS, disable_ue8m0_cast=True
        ),
        lambda: deep_gemm.m_grouped_fp8_gemm_nt_masked(
            columns(1, 128, 256), squares(1, 128, 256), bf16(1, 128, 128), ONE, 64, disable_ue8m0_cast=True
        ),
    ],
    ids=["dense", "contiguous", "masked"],
)
def test_scales_in_fp32_stay_as_they_are_if_asked(device: DeviceProperties, call: Call) -> None:
    with pytest.raises(
        NotBuiltError, match=rf"grouped_gemm_{TARGETS[device][0]}_e4m3_e4m3_bf16_1x128_128x128"
    ):
        call()


def test_scales_in_fp32_are_packed_first(device: DeviceProperties) -> None:
    with pytest.raises(
        NotBuiltError, match=f"scale_columns_{TARGETS[device][-1] if device is THOR else 'sm100f'}"
    ):
        deep_gemm.m_grouped_fp8_gemm_nt_contiguous(fp8(128, 256), squares(2, 128, 256), bf16(128, 128), ROWS)
