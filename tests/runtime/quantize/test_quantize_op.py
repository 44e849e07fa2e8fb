"""The quantising ops on kernels that run on the host, against the reference: bytes for bytes."""

from __future__ import annotations

import math
import sys
import threading
from typing import Any

import hypothesis
import pytest
import torch
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from quantize_comparison import check_read_back
from quantize_operands import BYTE_FORMATS, FP8, GS, ODD, data_of, dequantizer, equal_tensors, quantizer

import tilewright
from tilewright import blockwise_scales, reference, scale_factors
from tilewright.context import Context
from tilewright.contract.tensors import same
from tilewright.errors import ArgumentError, ArgumentTypeError, NotBuiltError


@pytest.mark.parametrize("layout", scale_factors.LAYOUTS)
@pytest.mark.parametrize("name", BYTE_FORMATS)
@pytest.mark.parametrize("shape", [*ODD, (3, 130, 48)])
def test_formats_and_layouts(hopper: Context, shape: tuple[int, ...], name: str, layout: str) -> None:
    x = data_of(shape)
    options = {"global_scale": GS} if name == "nvfp4" else {}
    data, scales = quantizer(name)(x, layout=layout, **options)
    expected, wanted_scales = reference.quantize(x, name, options.get("global_scale"), layout)
    assert same(data, expected)
    assert same(scales, wanted_scales)
    back = dequantizer(name)(data, scales, layout=layout, **options)
    exact = reference.dequantize(data, scales, name, layout=layout, global_scale=options.get("global_scale"))
    check_read_back(back, exact, f"{name} {layout}", rounded_twice=bool(options))


@pytest.mark.parametrize(("block", "scale_type", "layout"), FP8)
@pytest.mark.parametrize("shape", [*ODD, (3, 130, 272)])
def test_fp8_by_blocks_is_the_references_bytes(
    hopper: Context, shape: tuple[int, ...], block: tuple[int, int], scale_type: str, layout: str
) -> None:
    x = data_of(shape)
    data, scales = tilewright.quantize_fp8_blockwise(x, block, scale_type=scale_type, scale_layout=layout)
    expected, wanted_scales = reference.quantize_fp8_blockwise(x, block, scale_type, layout)
    assert same(data, expected)
    assert same(scales, wanted_scales)
    if layout != "row_major":
        assert scales.stride()[-2:] in {(1, -(-shape[-2] // 4) * 4)} or shape[-2] == 1
        memory = blockwise_scales.with_padding(scales)
        assert not memory[..., shape[-2] :].any()
    back = tilewright.dequantize_fp8_blockwise(data, scales, block)
    exact = reference.dequantize_fp8_blockwise(data, scales, block)
    check_read_back(back, exact, f"{block} {layout}", rounded_twice=False)
    default = tilewright.quantize_fp8_blockwise(x, list(block), scale_type=scale_type)
    assert same(default[1], reference.quantize_fp8_blockwise(x, block, scale_type)[1])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float8_e4m3fn])
def test_types_of_nvfp4(hopper: Context, dtype: Any) -> None:
    for shape in ODD:
        x = data_of(shape, dtype)
        actual = tilewright.quantize_nvfp4(x, GS)
        assert equal_tensors(actual, reference.quantize(x, "nvfp4", GS))
    with pytest.raises(NotBuiltError, match="host_to_nvfp4_f16_absent"):
        tilewright.quantize_nvfp4(data_of((4, 32), torch.float16))


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@hypothesis.given(
    st.integers(1, 140),
    st.integers(1, 12),
    st.sampled_from(BYTE_FORMATS),
    st.sampled_from(scale_factors.LAYOUTS),
)
def test_random_sizes_give_the_references_bytes(
    hopper: Context, m: int, blocks: int, name: str, layout: str
) -> None:
    x = data_of((m, 16 * blocks), seed=m * 13 + blocks)
    actual = quantizer(name)(x, layout=layout)
    assert equal_tensors(actual, reference.quantize(x, name, None, layout))


def test_every_code_is_read_back(hopper: Context) -> None:
    codes = torch.arange(256, dtype=torch.uint8).reshape(16, 16)
    for name, dtype in (
        ("nvfp4", torch.uint8),
        ("mxfp8", torch.float8_e4m3fn),
        ("mxfp8_e5m2", torch.float8_e5m2),
    ):
        scales = torch.arange(16 * 2, dtype=torch.uint8).reshape(16, 2) * 8
        scales = scales[
            :, : -(-codes.shape[1] * (2 if name == "nvfp4" else 1) // reference.FORMATS[name].block)
        ]
        data = codes.view(dtype)
        actual = dequantizer(name)(data, scales.contiguous(), layout="linear", dtype=torch.bfloat16)
        exact = reference.dequantize(data, scales.contiguous(), name, layout="linear")
        torch.testing.assert_close(actual, exact.bfloat16(), rtol=0, atol=0, equal_nan=True)


def test_a_global_scale_may_be_a_number_or_a_tensor(hopper: Context) -> None:
    x = data_of((2, 40, 64))
    flat = x[0]
    for given in (
        GS,
        torch.tensor(GS),
        torch.tensor([GS]),
        torch.tensor([[GS]]),
        torch.tensor(GS, dtype=torch.float64),
        37,
    ):
        actual = tilewright.quantize_nvfp4(flat, given)
        assert equal_tensors(actual, reference.quantize(flat, "nvfp4", float(given)))
    per_row = torch.rand(2, 40) * 100 + 1
    for given in (per_row, per_row.reshape(-1), per_row[..., None]):
        actual = tilewright.quantize_nvfp4(x, given)
        assert equal_tensors(actual, reference.quantize(x, "nvfp4", per_row))
    per_group = torch.tensor([3.0, 50.0])
    actual = tilewright.quantize_nvfp4(x, per_group)
    assert equal_tensors(actual, reference.quantize(x, "nvfp4", per_group[:, None].expand(2, 40)))
    back = tilewright.dequantize_nvfp4(*actual, per_group, dtype=torch.float32)
    exact = reference.dequantize(*actual, "nvfp4", global_scale=per_group[:, None].expand(2, 40))
    check_read_back(back, exact, "a global scale for each group", rounded_twice=True)


def test_a_number_is_one_constant_of_the_device(hopper: Context) -> None:
    from tilewright.calls.constants import constant  # noqa: PLC0415

    cpu = torch.device("cpu")
    first = constant(2.5, cpu)
    assert constant(2.5, cpu) is first
    assert constant(2.25, cpu) is not first
    assert constant(2.5, torch.device("meta")).is_meta
    assert math.copysign(1, constant(-0.0, cpu)) == -1
    assert math.copysign(1, constant(0.0, cpu)) == 1
    for number in range(2000):  # the oldest go
        assert constant(math.nan, cpu).isnan()
        last = constant(number + 0.125, cpu)
    assert constant(1999.125, cpu) is last
    assert constant(2.5, cpu) is not first


def test_constants_of_many_threads(hopper: Context) -> None:
    from tilewright.calls.constants import constant  # noqa: PLC0415

    cpu, failed = torch.device("cpu"), []
    interval = sys.getswitchinterval()

    def work(seed: int) -> None:
        try:
            for index in range(3000):
                value = float((index * 7919 + seed * 104729) % 3000 + 1)
                assert float(constant(value, cpu)) == value
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert not failed


def test_a_warm_call_sees_that_scales_have_no_room(hopper: Context) -> None:
    """The kernel writes padding: without memory for it, beyond the tensor."""
    x, data = torch.ones(130, 256, dtype=torch.bfloat16), torch.empty(130, 256, dtype=torch.float8_e4m3fn)
    short = torch.empty_strided((130, 2), (1, 132), dtype=torch.float32)
    for _ in range(2):
        with pytest.raises(ArgumentError, match=r"out_scales: .* memory for 262 scales, expected .* 264"):
            tilewright.quantize_fp8_blockwise(x, out=data, out_scales=short)
        room = blockwise_scales.allocate((130, 2), dtype=torch.float32, device=x.device)
        tilewright.quantize_fp8_blockwise(x, out=data, out_scales=room)


def test_options_of_the_wrong_kind(hopper: Context) -> None:
    x = torch.ones(16, 64, dtype=torch.bfloat16)
    for options, error, message in (
        ({"layout": None}, ArgumentError, "layout: it is None"),
        ({"fast": "no"}, ArgumentTypeError, "fast: it is a str"),
        ({"fast": torch.ones(2)}, ArgumentTypeError, "fast: it is a Tensor"),
        ({"global_scale": torch.tensor(1j)}, ArgumentTypeError, "expected a real number"),
        (
            {"four_over_six": "rms"},
            ArgumentError,
            "it is 'rms'; expected one of none, mse, mae",
        ),
        (
            {"four_over_six": "mse", "activation": "silu_mul"},
            ArgumentError,
            "four_over_six: it is 'mse'; expected one of none",
        ),
        (
            {"four_over_six": "mae", "tactic": "host_to_nvfp4_bf16"},
            ArgumentError,
            "its four_over_six is none, not mae",
        ),
    ):
        with pytest.raises(error, match=message):
            tilewright.quantize_nvfp4(x, **options)
    with pytest.raises(ArgumentTypeError, match="dtype: "):
        tilewright.quantize_mxfp8(x, dtype=[1])  # type: ignore[arg-type]
    tilewright.quantize_nvfp4(x, 1)
    with pytest.raises(ArgumentError, match="beyond the range"):  # of a warm call
        tilewright.quantize_nvfp4(x, 10**400)
