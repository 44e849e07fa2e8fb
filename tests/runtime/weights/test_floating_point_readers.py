"""Readers of MXFP4, NVFP4 and FP8 weights of checkpoints."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from checkpoint_words import codes_of

from tilewright import weights
from tilewright.errors import ArgumentError


def pairs(codes: torch.Tensor) -> torch.Tensor:
    """Two E2M1 codes to a byte, the even column in the low four bits."""
    return codes[..., 0::2] | codes[..., 1::2] << 4


def exponents(*shape: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(3)
    return torch.randint(0, 256, shape, generator=generator).to(torch.uint8)


def test_mxfp4_by_all_names() -> None:
    codes = codes_of(2 * 16, 96, 4).reshape(2, 16, 96)
    scales = exponents(2, 16, 3)
    gpt_oss = weights.from_mxfp4(pairs(codes).reshape(2, 16, 3, 16), scales)
    assert torch.equal(gpt_oss.codes, codes)
    assert torch.equal(gpt_oss.scales.view(torch.uint8), scales)
    deepseek = weights.from_mxfp4(pairs(codes[1]).view(torch.int8), scales[1].view(torch.float8_e8m0fnu))
    assert torch.equal(deepseek.codes, codes[1])
    torch_pairs = weights.from_mxfp4(pairs(codes[1]).view(torch.float4_e2m1fn_x2), scales[1])
    assert torch.equal(torch_pairs.codes, codes[1])


def test_nvfp4_multiplies_or_divides_by_its_global_scale() -> None:
    codes = codes_of(8, 32, 4)
    scales = torch.arange(16, dtype=torch.uint8).reshape(8, 2).view(torch.float8_e4m3fn)
    plain = weights.QuantizedWeight(codes, scales, 16, "nvfp4").dequantize()
    factor = torch.tensor(3.0)
    modelopt = weights.from_modelopt_nvfp4(pairs(codes), scales, factor)
    assert torch.equal(modelopt.dequantize(), plain * 3)
    divided = weights.from_nvfp4_pack_quantized(pairs(codes), scales, factor.reshape(1))
    third = torch.tensor(1 / 3, dtype=torch.float32).item()
    assert divided.global_scale == third
    assert torch.equal(divided.dequantize(), plain * third)
    experts = weights.from_modelopt_nvfp4(
        pairs(codes).expand(2, 8, 16), scales.expand(2, 8, 2), torch.tensor([3.0, 0.5])
    )
    assert experts.global_scale == (3.0, 0.5)
    assert torch.equal(experts.dequantize(), torch.stack((plain * 3, plain / 2)))


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (
            lambda: weights.from_mxfp4(torch.zeros((8, 2, 15), dtype=torch.uint8), exponents(8, 2)),
            r"blocks: expected shape \(8, 2, 16\) \(16 bytes for each scale\)",
        ),
        (
            lambda: weights.from_mxfp4(torch.zeros((8, 32), dtype=torch.uint8), exponents(8, 4)),
            r"scales: expected shape \(8, 2\) \(a scale for each 32 of 64 columns\), got \(8, 4\)",
        ),
        (
            lambda: weights.from_mxfp4(torch.zeros((8, 24), dtype=torch.uint8), exponents(8, 1)),
            "blocks: expected .n, k/2. or .experts, n, k/2., k % 32 = 0",
        ),
        (
            lambda: weights.from_mxfp4(torch.zeros((8, 32), dtype=torch.uint8), torch.ones(8, 2)),
            "scales: expected a tensor of uint8 or float8_e8m0fnu, got torch.float32",
        ),
        (
            lambda: weights.from_modelopt_nvfp4(
                torch.zeros((8, 16), dtype=torch.uint8),
                torch.ones(8, 2).to(torch.float8_e4m3fn),
                torch.ones(2),
            ),
            r"weight_scale_2: expected one element for one weight, got shape \(2,\)",
        ),
        (
            lambda: weights.from_fp8(torch.zeros((130, 160)).to(torch.float8_e4m3fn), torch.ones(2, 1)),
            r"scale: expected \(2, 2\) \(blocks of 128 x 128\), \(130, 1\) \(rows\) or one element, got ",
        ),
        (
            lambda: weights.from_fp8(
                torch.zeros((8, 32)).to(torch.float8_e4m3fn), torch.ones(1, 1, 2), block=(0, 32)
            ),
            r"block: expected positive rows and columns, got \(0, 32\)",
        ),
        (
            lambda: weights.from_pack_quantized(
                torch.zeros((8, 4), dtype=torch.int32), torch.ones(8, 1).half(), torch.tensor([8])
            ),
            r"weight_shape: expected shape \(2,\) \(n and k\), got \(1,\)",
        ),
    ],
)
def test_floating_point_readers_refuse(read: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=f"^{message}"):
        read()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float8_e8m0fnu])
def test_fp8_in_blocks(dtype: torch.dtype) -> None:
    """The last blocks along n and k are partial."""
    weight = torch.randn((2, 136, 160), generator=torch.Generator().manual_seed(0)).to(torch.float8_e4m3fn)
    scale = torch.tensor([[[1.0, 2.0], [4.0, 8.0]], [[0.5, 0.25], [16.0, 2.0**-127]]]).to(dtype)
    decoded = weights.from_fp8(weight, scale)
    assert (decoded.format, decoded.group) == ("e4m3", 128)
    for expert in range(2):
        for row, column in ((0, 0), (127, 127), (128, 127), (127, 128), (135, 159)):
            expected = (
                weight[expert, row, column].double() * scale[expert, row // 128, column // 128].double()
            )
            assert decoded.dequantize()[expert, row, column] == expected


@pytest.mark.parametrize("shape", [(), (1,), (1, 1), (16,), (16, 1)])
def test_fp8_of_rows_and_of_a_tensor(shape: tuple[int, ...]) -> None:
    weight = torch.randn((16, 32), generator=torch.Generator().manual_seed(0)).to(torch.float8_e4m3fn)
    scale = torch.arange(1, 1 + torch.Size(shape).numel(), dtype=torch.float32).reshape(shape)
    decoded = weights.from_fp8(weight, scale)
    assert decoded.group == -1
    expected = scale.reshape(-1, 1).expand(16, 1)
    assert torch.equal(decoded.dequantize(), weight.double() * expected)
