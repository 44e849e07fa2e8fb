"""The quantising ops on kernels that run on the host, against the reference: bytes for bytes."""

from __future__ import annotations

import itertools
import logging
import math
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

import hypothesis  # noqa: E402 (torch decides whether this module is there)
from hypothesis import HealthCheck, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from quantize_comparison import check_read_back  # noqa: E402

import tilewright  # noqa: E402
from tilewright import blockwise_scales, reference, row_shuffle, scale_factors  # noqa: E402
from tilewright.context import Context  # noqa: E402
from tilewright.contract.tensors import same  # noqa: E402
from tilewright.errors import (  # noqa: E402
    ArgumentError,
    ArgumentTypeError,
    NoKernelError,
    NotBuiltError,
    WrongResultError,
)
from tilewright.families.quantize import measuring  # noqa: E402
from tilewright.families.quantize.problem import Problem  # noqa: E402

ODD = [(1, 16), (120, 64), (129, 80), (200, 256), (37, 208)]
BYTE_FORMATS = ("nvfp4", "mxfp4", "mxfp8", "mxfp8_e5m2")
FP8 = [
    ((1, 128), "float32", "m_major"),
    ((1, 128), "float32", "row_major"),
    ((1, 128), "ue8m0", "packed"),
    ((128, 1), "float32", "row_major"),
    ((128, 128), "float32", "row_major"),
    ((128, 128), "ue8m0", "packed"),
]
GS = 37.25
POISON = 0x5A


def data_of(shape: tuple[int, ...], dtype: Any = torch.bfloat16, seed: int = 0) -> Any:
    """Random numbers of several magnitudes, with what is special among them."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(shape, generator=generator) * 4.0 ** torch.randint(
        -6, 4, (*shape[:-1], 1), generator=generator
    )
    flat = x.view(-1)
    for at, value in enumerate((0.0, -0.0, math.inf, -math.inf, math.nan, 2.0**-130)):
        if flat.numel() > 640:
            flat[(at * 7919 + 13) % flat.numel()] = value
    if flat.numel() > 640:
        x.view(-1)[320:352] = 0.0
    return x.clamp(-448, 448).to(dtype) if dtype == torch.float8_e4m3fn else x.to(dtype)


def as_bytes(tensor: Any) -> Any:
    return tensor.contiguous().view(torch.uint8) if tensor.element_size() == 1 else tensor


def quantizer(name: str) -> Callable[..., Any]:
    if name == "mxfp8_e5m2":
        return lambda x, **options: tilewright.quantize_mxfp8(x, dtype=torch.float8_e5m2, **options)
    return getattr(tilewright, f"quantize_{name}")


def dequantizer(name: str) -> Callable[..., Any]:
    return getattr(tilewright, f"dequantize_{name.removesuffix('_e5m2')}")


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
def test_fp8_blockwise(
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
        assert all(map(same, actual, reference.quantize(x, "nvfp4", GS)))
    with pytest.raises(NotBuiltError, match="host_to_nvfp4_f16_absent"):
        tilewright.quantize_nvfp4(data_of((4, 32), torch.float16))


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@hypothesis.given(
    st.integers(1, 140),
    st.integers(1, 12),
    st.sampled_from(BYTE_FORMATS),
    st.sampled_from(scale_factors.LAYOUTS),
)
def test_any_size(hopper: Context, m: int, blocks: int, name: str, layout: str) -> None:
    x = data_of((m, 16 * blocks), seed=m * 13 + blocks)
    actual = quantizer(name)(x, layout=layout)
    assert all(map(same, actual, reference.quantize(x, name, None, layout)))


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
        assert same(actual.nan_to_num(7.0), exact.bfloat16().nan_to_num(7.0))


def test_global_scales(hopper: Context) -> None:
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
        assert all(map(same, actual, reference.quantize(flat, "nvfp4", float(given))))
    per_row = torch.rand(2, 40) * 100 + 1
    for given in (per_row, per_row.reshape(-1), per_row[..., None]):
        actual = tilewright.quantize_nvfp4(x, given)
        assert all(map(same, actual, reference.quantize(x, "nvfp4", per_row)))
    per_group = torch.tensor([3.0, 50.0])
    actual = tilewright.quantize_nvfp4(x, per_group)
    assert all(map(same, actual, reference.quantize(x, "nvfp4", per_group[:, None].expand(2, 40))))
    back = tilewright.dequantize_nvfp4(*actual, per_group, dtype=torch.float32)
    exact = reference.dequantize(*actual, "nvfp4", global_scale=per_group[:, None].expand(2, 40))
    check_read_back(back, exact, "a global scale for each group", rounded_twice=True)


def test_a_number_is_one_constant_of_the_device(hopper: Context) -> None:
    from tilewright.calls.constants import constant  # noqa: PLC0415

    cpu = torch.device("cpu")
    first = constant(2.5, cpu)
    assert constant(2.5, cpu) is first
    assert constant(2.25, cpu) is not first
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


@pytest.mark.parametrize("name", BYTE_FORMATS)
def test_masked_rows(hopper: Context, name: str) -> None:
    x = data_of((5, 130, 96))
    valid = torch.tensor([0, 129, 130, 7, -3], dtype=torch.int32)
    width = 48 if name in ("nvfp4", "mxfp4") else 96
    for layout in scale_factors.LAYOUTS:
        expected, wanted_scales = reference.quantize(x, name, None, layout, rows_valid=valid.clamp(min=0))
        out = torch.full((5, 130, width), POISON, dtype=torch.uint8)
        data, scales = quantizer(name)(x, layout=layout, rows_valid=valid, out=out)
        assert data is out
        assert same(scales, wanted_scales)
        rows = reference.valid_rows(valid, 130)
        assert same(out[rows], as_bytes(expected)[rows])
        assert bool((out[~rows] == POISON).all())
        result = torch.full((5, 130, 96), 7.0, dtype=torch.bfloat16)
        dequantizer(name)(as_type(out, name), scales, layout=layout, rows_valid=valid, out=result)
        assert bool((result[~rows] == 7).all())
        exact = reference.dequantize(expected, wanted_scales, name, layout=layout)
        check_read_back(result[rows], exact[rows], f"{name} {layout}", rounded_twice=False)


def as_type(data: Any, name: str) -> Any:
    return data.view({"mxfp8": torch.float8_e4m3fn, "mxfp8_e5m2": torch.float8_e5m2}.get(name, torch.uint8))


@pytest.mark.parametrize(("block", "scale_type", "layout"), FP8)
def test_masked_rows_of_fp8_blockwise(
    hopper: Context, block: tuple[int, int], scale_type: str, layout: str
) -> None:
    x = data_of((4, 259, 144))
    valid = torch.tensor([0, 129, 259, 1], dtype=torch.int32)
    rows = reference.valid_rows(valid, 259)
    expected = reference.quantize_fp8_blockwise(x, block, scale_type, layout, rows_valid=valid)
    out = torch.full(x.shape, POISON, dtype=torch.uint8)
    _, scales = tilewright.quantize_fp8_blockwise(
        x, block, scale_type=scale_type, scale_layout=layout, rows_valid=valid, out=out
    )
    assert same(scales, expected[1])
    assert same(out[rows], as_bytes(expected[0])[rows])
    assert bool((out[~rows] == POISON).all())


def near(found: Any, exact: Any, name: str, **options: Any) -> None:
    """What was quantised from a value near the exact one is within the format's own error of that."""
    compared = reference.compare(
        reference.dequantize(*found, name, **options),
        exact.double(),
        exact.double().abs(),
        name,
        slack=2.0**-18,
    )
    assert compared.passes(cosine=0.98), str(compared)


def test_silu_mul(hopper: Context) -> None:
    x = torch.randn(70, 192).bfloat16() * 3
    fused = reference.silu_mul(x)
    data, scales = tilewright.quantize_nvfp4(x, activation="silu_mul")
    assert data.shape == (70, 48)
    near((data, scales), fused, "nvfp4")
    data, scales = tilewright.quantize_fp8_blockwise(x, activation="silu_mul")
    assert data.shape == (70, 96)
    back = reference.dequantize_fp8_blockwise(data, scales)
    assert bool(((back - fused).abs() <= fused.abs() * 2.0**-3.99 + scales.double() * 2.0**-10).all())


def test_rms_norm(hopper: Context) -> None:
    x, weight = torch.randn(70, 96).bfloat16() * 3, torch.randn(96).bfloat16()
    for eps in (1e-6, 0.5):
        actual = tilewright.quantize_nvfp4(x, 2.0, rms_weight=weight, eps=eps)
        near((actual[0], actual[1]), reference.rms_norm(x, weight, eps), "nvfp4", global_scale=2.0)


@pytest.mark.parametrize("name", ["nvfp4", "mxfp4", "mxfp8"])
def test_shuffled_rows(hopper: Context, name: str) -> None:
    x = data_of((2, 96, 64))
    for layout in scale_factors.LAYOUTS:
        data, scales = quantizer(name)(x, layout=layout, shuffle=True)
        plain, plain_scales = reference.quantize(x, name, layout="linear")
        assert same(data, row_shuffle.shuffle_rows(as_bytes(plain)).view(data.dtype))
        shuffled = row_shuffle.shuffle_rows(as_bytes(plain_scales))
        assert torch.equal(as_bytes(scales), scale_factors.swizzle(shuffled, layout))
    if name == "nvfp4":
        per_row = torch.rand(2, 96) + 0.5
        data, scales = tilewright.quantize_nvfp4(x, per_row, shuffle=True)
        plain, plain_scales = reference.quantize(x, name, per_row, "linear")
        assert same(data, row_shuffle.shuffle_rows(plain))
    with pytest.raises(ArgumentError, match="shuffle: 33 rows"):
        quantizer(name)(x[0, :33], shuffle=True)
    with pytest.raises(ArgumentError, match="shuffle"):
        quantizer(name)(x, shuffle=True, rows_valid=torch.ones(2, dtype=torch.int32))


@pytest.mark.parametrize("shape", [(0, 64), (5, 0), (0, 8, 64), (2, 0, 64), (2, 8, 0)])
def test_nothing_to_quantise(hopper: Context, shape: tuple[int, ...]) -> None:
    x = torch.zeros(shape, dtype=torch.bfloat16)
    for name, layout in itertools.product(BYTE_FORMATS, scale_factors.LAYOUTS):
        data, scales = quantizer(name)(x, layout=layout)
        expected, wanted_scales = reference.quantize(x, name, layout=layout)
        assert same(data, expected)
        assert same(scales, wanted_scales)
        assert dequantizer(name)(data, scales, layout=layout).shape == shape
    for block, scale_type, layout in FP8:
        data, scales = tilewright.quantize_fp8_blockwise(x, block, scale_type=scale_type, scale_layout=layout)
        assert data.shape == shape
        assert scales.numel() == 0
        assert tilewright.dequantize_fp8_blockwise(data, scales, block).shape == shape


def shifted(tensor: Any, by: int) -> Any:
    """A copy whose address is a multiple of `by` bytes and of no more."""
    flat = tensor.contiguous().view(torch.uint8).flatten()
    room = torch.empty(flat.numel() + 128, dtype=torch.uint8)
    start = -room.data_ptr() % 64 + by
    return room[start : start + flat.numel()].copy_(flat).view(tensor.dtype).view(tensor.shape)


def test_what_lies_badly_is_copied(hopper: Context, caplog: pytest.LogCaptureFixture) -> None:
    x = data_of((130, 96))
    expected = reference.quantize(x, "nvfp4", GS)
    wide = torch.zeros(130, 100).bfloat16()
    wide[:, :96] = x
    wider = torch.zeros(130, 104).bfloat16()
    wider[:, :96] = x
    for given, copied in (
        (x, False), (wider[:, :96], False), (wide[:, :96], True), (shifted(x, 2), True),
        (shifted(x, 16), False), (x.t().contiguous().t(), True),
    ):  # fmt: skip
        caplog.clear()
        assert all(map(same, tilewright.quantize_nvfp4(given, GS), expected))
        assert ("copies x," in caplog.text) == copied
    for out_by, scales_by in ((4, 16), (16, 4), (1, 1), (8, 16)):
        caplog.clear()
        out = shifted(torch.full((130, 48), POISON, dtype=torch.uint8), out_by)
        out_scales = shifted(torch.full((256, 8), POISON, dtype=torch.uint8), scales_by)
        data, scales = tilewright.quantize_nvfp4(x, GS, out=out, out_scales=out_scales)
        assert data is out
        assert scales is out_scales
        assert same(out, expected[0])
        assert torch.equal(out_scales, as_bytes(expected[1]))
        assert ("copies" in caplog.text) == (out_by < 8 or scales_by < 16)
    room = torch.full((130, 60), POISON, dtype=torch.uint8)
    for width in (56, 60):  # rows at multiples of 8, and of 4
        part = room.view(-1)[: 130 * width].view(130, width)[:, :48]
        tilewright.quantize_nvfp4(x, GS, out=part)
        assert same(part, expected[0])
        assert bool((room.view(-1)[: 130 * width].view(130, width)[:, 48:] == POISON).all())
        room.fill_(POISON)


def test_masked_rows_of_a_copied_out_stay(hopper: Context) -> None:
    x = data_of((2, 40, 64))
    valid = torch.tensor([3, 40], dtype=torch.int32)
    out = shifted(torch.full((2, 40, 32), POISON, dtype=torch.uint8), 1)
    tilewright.quantize_nvfp4(x, rows_valid=valid, out=out)
    assert bool((out[0, 3:] == POISON).all())
    assert same(out[0, :3], reference.quantize(x, "nvfp4")[0][0, :3])


def test_scales_of_ones_own(hopper: Context) -> None:
    x = data_of((2, 130, 272))
    for block, scale_type, layout in FP8:
        wanted_scales = reference.quantize_fp8_blockwise(x, block, scale_type, layout)[1]
        own = blockwise_scales.allocate(wanted_scales.shape, dtype=wanted_scales.dtype, device="cpu")
        if layout == "row_major":
            own = torch.empty_like(wanted_scales)
        else:
            blockwise_scales.with_padding(own).fill_(7)
        _, scales = tilewright.quantize_fp8_blockwise(
            x, block, scale_type=scale_type, scale_layout=layout, out_scales=own
        )
        assert scales is own
        assert same(scales, wanted_scales)
        if layout != "row_major":
            assert not blockwise_scales.with_padding(own)[..., 130:].any()
    with pytest.raises(ArgumentError, match=r"out_scales: strides .* memory for"):
        tilewright.quantize_fp8_blockwise(x[0], out_scales=torch.empty_strided((130, 3), (1, 132)))


def test_overlaps_are_refused(hopper: Context) -> None:
    x = torch.zeros(64, 64).bfloat16()
    room = x.view(torch.uint8).view(64, 128)
    with pytest.raises(ArgumentError, match="overlaps x"):
        tilewright.quantize_nvfp4(x, out=room[:, :32])
    with pytest.raises(ArgumentError, match=r"^out_scales: it overlaps x"):
        tilewright.quantize_nvfp4(x, out_scales=room.view(-1)[: 128 * 4])
    data, scales = tilewright.quantize_nvfp4(x)
    with pytest.raises(ArgumentError, match=r"^out: it overlaps data"):
        tilewright.dequantize_nvfp4(room[:, :32], scales, out=x)
    both = torch.zeros(64 * 32 + 128 * 4, dtype=torch.uint8)
    with pytest.raises(ArgumentError, match="overlaps"):
        tilewright.quantize_nvfp4(x, out=both[: 64 * 32].view(64, 32), out_scales=both[-128 * 4 - 64 : -64])
    assert data.shape == (64, 32)


def test_what_is_read_may_overlap(hopper: Context) -> None:
    x = data_of((64, 64))
    expected = tilewright.quantize_nvfp4(x, rms_weight=x[0].clone())
    assert all(map(same, tilewright.quantize_nvfp4(x, rms_weight=x[0]), expected))


@pytest.mark.parametrize("m", [9, 130])
@pytest.mark.parametrize("options", [{}, {"scale_type": "ue8m0"}, {"block": (128, 128)}])
def test_scales_that_lie_otherwise_are_copied(
    hopper: Context, m: int, options: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    x = data_of((m, 1040)).clamp(-1, 1).nan_to_num(0.5)
    data, scales = tilewright.quantize_fp8_blockwise(x, **options)
    block = options.get("block", (1, 128))
    expected = tilewright.dequantize_fp8_blockwise(data, scales, block)
    wide = torch.zeros(*scales.shape, 2, dtype=scales.dtype)
    wide[..., 0] = scales
    for other in (scales * 1, wide[..., 0]):
        with caplog.at_level(logging.WARNING, logger="tilewright"):
            assert same(tilewright.dequantize_fp8_blockwise(data, other, block), expected)
    if block == (1, 128) and not options:
        part = tilewright.dequantize_fp8_blockwise(data[: m - 3], scales[: m - 3])
        assert same(part, expected[: m - 3])
    assert "copies scales" in caplog.text


def used(context: Context) -> set[str]:
    return {str(plan.tactic) for plan in context.plans.values() if hasattr(plan, "tactic")}


def test_tactics(hopper: Context) -> None:
    x = data_of((130, 1024))
    expected = reference.quantize(x, "nvfp4")
    for tactic in ("host_to_nvfp4_bf16", "host_to_nvfp4_bf16_tma@blocks=2", "host_to_nvfp4_bf16@blocks=1"):
        hopper.plans.clear()
        assert all(map(same, tilewright.quantize_nvfp4(x, tactic=tactic), expected))
        assert used(hopper) == {tactic}
    for tactic, reason in (
        ("host_to_nvfp4_bf16@raster=along_m", "does not support raster"),
        ("host_to_nvfp4_bf16_fast", "approximate, which the call does not allow"),
        ("host_to_mxfp4_bf16", "format is mxfp4"),
        ("host_bf16_tn", "is a gemm kernel"),
    ):
        with pytest.raises(ArgumentError, match=reason):
            tilewright.quantize_nvfp4(x, tactic=tactic)
    hopper.plans.clear()
    tilewright.quantize_nvfp4(x, fast=True)
    assert {tactic.partition("@")[0] for tactic in used(hopper)} == {"host_to_nvfp4_bf16_fast"}
    hopper.plans.clear()
    tilewright.quantize_mxfp4(x)
    assert len(used(hopper)) == 1


def test_plans_are_remembered(hopper: Context) -> None:
    x = data_of((130, 64))
    for scale in (1.0, 2.0, 3.0):
        tilewright.quantize_nvfp4(x, scale)
        tilewright.quantize_nvfp4(x)
    assert len(hopper.plans) == 2
    tilewright.quantize_nvfp4(x, layout="8x4")
    assert len(hopper.plans) == 3


def test_problems_that_no_kernel_computes(hopper: Context, caplog: pytest.LogCaptureFixture) -> None:
    x = data_of((8, 72))
    for one in (x, x.to("meta")):
        with pytest.raises(ArgumentError, match="x: k is 72; expected a multiple of 16"):
            tilewright.quantize_nvfp4(one)
    with pytest.raises(NoKernelError, match="its fusion is none, not silu_mul"):
        tilewright.quantize_mxfp4(data_of((8, 64)), activation="silu_mul")
    with pytest.raises(NoKernelError, match="quantize 8x64 f16 -> mxfp4"):
        tilewright.quantize_mxfp4(torch.zeros(8, 64).half())
    assert not caplog.records or all(one.levelno < logging.WARNING for one in caplog.records)


@pytest.mark.parametrize(
    "problem",
    [
        Problem(300, 96, global_scale="tensor"),
        Problem(300, 96, 2, global_scale="row", layout="8x4"),
        Problem(300, 192, format="mxfp8", layout="linear"),
        Problem(300, 272, format="fp8_1x128", layout="m_major"),
        Problem(301, 272, format="fp8_1x128", layout="packed"),
        Problem(300, 272, format="fp8_128x1", layout="row_major"),
        Problem(300, 272, format="fp8_128x128", layout="row_major"),
        Problem(300, 272, 2, format="fp8_128x128", layout="packed"),
        Problem(300, 96, fusion="silu_mul"),
        Problem(300, 256, format="fp8_1x128", layout="m_major", fusion="silu_mul"),
        Problem(300, 96, exact=False),
    ],
    ids=str,
)
def test_a_measurement_sees_what_is_wrong(hopper: Context, problem: Problem) -> None:
    wide = (2 if problem.fusion == "silu_mul" else 1) * problem.k
    x = torch.randn(*([problem.groups] if problem.groups > 1 else []), problem.m, wide).bfloat16()
    count = {"none": 0, "tensor": 1, "row": problem.groups * problem.m}[problem.global_scale]
    scale = {"global_scale": torch.rand(count) * 400 + 1} if count else {}
    right = measuring.operands(problem, x=x, **scale)
    right.poison()
    with pytest.raises(WrongResultError, match="of the elements differ"):
        right.check()
    right.call()
    assert right.check() < (0.06 if problem.format not in ("nvfp4", "mxfp4") else 0.2)
    data, scales = right.out, right.out_scales
    right.out = as_bytes(data).roll(1, -1).view(data.dtype)
    with pytest.raises(WrongResultError, match="of the elements differ"):
        right.check()
    right.out, right.out_scales = data, torch.zeros_like(scales)
    with pytest.raises(WrongResultError, match="of the scales differ"):
        right.check()
    if problem.fusion == "none":
        back = measuring.operands(replace(problem, direction="dequantize"), data=data, scales=scales, **scale)
        back.call()
        assert back.check() < 2.0**-8
        back.poison()
        with pytest.raises(WrongResultError, match="is off by"):
            back.check()


@pytest.mark.parametrize("fusion", ["none", "silu_mul"])
def test_scales_of_fused_kernels_may_be_rounded_otherwise(hopper: Context, fusion: str) -> None:
    problem = Problem(300, 256, format="fp8_1x128", layout="row_major", fusion=fusion)
    x = torch.randn(problem.m, (2 if fusion == "silu_mul" else 1) * problem.k).bfloat16()
    operands = measuring.operands(problem, x=x)
    operands.call()
    scales = operands.out_scales
    operands.out_scales = scales * (1 + 2.0**-21)
    if fusion == "silu_mul":
        operands.check()
    else:
        with pytest.raises(WrongResultError, match="of the scales differ"):
            operands.check()
    for wrong in (scales * (1 + 2.0**-12), scales.new_full(scales.shape, float("nan"))):
        operands.out_scales = wrong
        with pytest.raises(WrongResultError, match="of the scales differ"):
            operands.check()
