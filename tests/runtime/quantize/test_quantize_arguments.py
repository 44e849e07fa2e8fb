"""Arguments of the quantising ops that are wrong: errors name them, and come before any work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import tilewright
from tilewright import blockwise_scales
from tilewright.architectures.device import H200
from tilewright.context import Context
from tilewright.errors import ArgumentError, ArgumentTypeError, UnsupportedDeviceError
from tilewright.families.quantize.problem import Problem

X = torch.zeros(40, 64, dtype=torch.bfloat16)
STACK = torch.zeros(3, 40, 64, dtype=torch.bfloat16)
DATA = torch.zeros(40, 32, dtype=torch.uint8)
SCALES = torch.zeros(128, 4, dtype=torch.uint8)
FP8 = torch.zeros(40, 64, dtype=torch.float8_e4m3fn)


def int32(*values: int) -> Any:
    return torch.tensor(values, dtype=torch.int32)


Call = Callable[[], Any]
nvfp4, mxfp4, mxfp8 = tilewright.quantize_nvfp4, tilewright.quantize_mxfp4, tilewright.quantize_mxfp8
blockwise, back = tilewright.quantize_fp8_blockwise, tilewright.dequantize_nvfp4
VALUES: list[tuple[str, Call]] = [
    ("x: its shape", lambda: nvfp4(X[0])),
    ("x: its shape", lambda: nvfp4(STACK[None])),
    ("x: its shape is .40, 63.; expected a multiple of 2", lambda: nvfp4(X[:, :63], activation="silu_mul")),
    ("layout: it is '4x8'; expected one of 128x4, 8x4, linear", lambda: nvfp4(X, layout="4x8")),
    ("layout: it is 'm_major'", lambda: mxfp8(X, layout="m_major")),
    ("activation: it is 'gelu'", lambda: nvfp4(X, activation="gelu")),
    ("rms_weight: not supported beside silu_mul", lambda: nvfp4(X, activation="silu_mul", rms_weight=X[0])),
    ("rms_weight: its shape is .63", lambda: nvfp4(X, rms_weight=X[0, :63])),
    ("rms_weight: its strides .*contiguous .64",
     lambda: nvfp4(X, rms_weight=torch.zeros(128).bfloat16()[::2])),
    ("global_scale: .*, got .41", lambda: nvfp4(X, torch.zeros(41))),
    ("global_scale: .* .3, 40. for the rows, or .3. for the groups", lambda: nvfp4(STACK, torch.zeros(40))),
    ("global_scale: .*, got .40, 3", lambda: nvfp4(STACK, torch.ones(40, 3))),
    ("global_scale: .*, got .5, 8", lambda: nvfp4(X, torch.ones(5, 8))),
    ("global_scale: .* got strides", lambda: nvfp4(X, torch.zeros(80)[::2])),
    ("global_scale: .*beyond the range", lambda: nvfp4(X, 10**400)),
    ("rows_valid: its shape is .2", lambda: nvfp4(STACK, rows_valid=int32(1, 2))),
    ("rows_valid: its shape is .3.; expected 1 elements", lambda: nvfp4(X, rows_valid=int32(1, 2, 3))),
    ("out: its shape is .40, 31", lambda: nvfp4(X, out=DATA[:, :31])),
    ("out: its strides", lambda: nvfp4(X, out=torch.zeros(32, 40, dtype=torch.uint8).t())),
    ("out: .*overlap", lambda: nvfp4(X, out=DATA[:1].expand(40, 32))),
    ("out_scales: its shape is .40, 4.; expected 512 elements", lambda: nvfp4(X, out_scales=SCALES[:40])),
    ("out_scales: its shape is .128, 4.; expected 160 elements, as of .40, 4",
     lambda: nvfp4(X, layout="linear", out_scales=SCALES)),
    ("out_scales: its strides", lambda: nvfp4(X, out_scales=SCALES.repeat(1, 2)[:, ::2])),
    ("shuffle: 40 rows, expected a multiple of 32", lambda: mxfp4(X, shuffle=True)),
    ("tactic: 'blocks' is not NAME=VALUE", lambda: nvfp4(X, tactic="host_to_nvfp4_bf16@blocks")),
    ("tactic: blocks is 99", lambda: nvfp4(X, tactic="host_to_nvfp4_bf16@blocks=99")),
    ("block: .*, got .64, 64", lambda: blockwise(X, (64, 64))),
    ("block: .*, got 128", lambda: blockwise(X, 128)),  # type: ignore[arg-type]
    ("scale_type: it is 'bf16'", lambda: blockwise(X, scale_type="bf16")),
    ("scale_layout: 'packed' is not supported", lambda: blockwise(X, scale_layout="packed")),
    ("scale_layout: 'm_major' is not supported",
     lambda: blockwise(X, scale_type="ue8m0", scale_layout="m_major")),
    ("scale_layout: .*m_major", lambda: blockwise(X, (128, 128), scale_layout="m_major")),
    ("scale_layout: it is '128x4'", lambda: blockwise(X, scale_layout="128x4")),
    ("out_scales: its shape is .1, 40", lambda: blockwise(X, out_scales=torch.zeros(1, 40))),
    ("out_scales: its shape is .1.;", lambda: blockwise(X, (128, 128), out_scales=torch.zeros(1))),
    ("scales: its shape", lambda: back(DATA, SCALES[:40])),
    ("data: its shape", lambda: back(DATA[0], SCALES)),
    ("out: its shape is .40, 63", lambda: back(DATA, SCALES, out=X[:, :63])),
]  # fmt: skip
TYPES: list[tuple[str, Call]] = [
    ("x: its dtype is torch.float64", lambda: nvfp4(X.double())),
    ("x: its dtype is torch.float8_e4m3fn; expected one of .*quantize_mxfp4", lambda: mxfp4(FP8)),
    ("x: its dtype is torch.int8", lambda: blockwise(X.to(torch.int8))),
    ("dtype: .*, got torch.bfloat16", lambda: mxfp8(X, dtype=torch.bfloat16)),
    ("global_scale: it is a str", lambda: nvfp4(X, "1")),  # type: ignore[arg-type]
    ("global_scale: expected float32, got torch.float16", lambda: nvfp4(X, torch.ones(40).half())),
    ("rows_valid: its dtype is torch.int64", lambda: nvfp4(X, rows_valid=torch.tensor([3]))),
    ("rms_weight: its dtype is torch.float32", lambda: nvfp4(X, rms_weight=X[0].float())),
    ("out: its dtype is torch.int8", lambda: nvfp4(X, out=DATA.view(torch.int8))),
    ("out: its dtype is torch.float8_e5m2", lambda: mxfp8(X, out=FP8.view(torch.float8_e5m2))),
    ("out_scales: its dtype is torch.float8_e8m0fnu",
     lambda: nvfp4(X, out_scales=SCALES.view(torch.float8_e8m0fnu))),
    ("out_scales: its dtype is torch.float32; expected int32",
     lambda: blockwise(X, scale_type="ue8m0", out_scales=torch.zeros(40, 1))),
    ("data: its dtype is torch.float32", lambda: back(X.float(), SCALES)),
    ("data: its dtype is torch.uint8", lambda: tilewright.dequantize_mxfp8(DATA, SCALES)),
    ("scales: its dtype is torch.float32", lambda: back(DATA, SCALES.float())),
    ("dtype: it is torch.float64", lambda: back(DATA, SCALES, dtype=torch.float64)),
    ("dtype: it is torch.float8_e4m3fn", lambda: back(DATA, SCALES, dtype=torch.float8_e4m3fn)),
    ("out: its dtype is torch.bfloat16; expected float32",
     lambda: back(DATA, SCALES, dtype=torch.float32, out=X)),
]  # fmt: skip


@pytest.fixture
def nothing_made(hopper: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is refused is refused before the op makes a tensor."""

    def refuse(*args: Any, **options: Any) -> Any:
        raise AssertionError("a tensor was made")

    for name in ("empty", "zeros", "full"):
        monkeypatch.setattr(torch, name, refuse)
    monkeypatch.setattr(blockwise_scales, "allocate", refuse)


def _calls(cases: list[tuple[str, Call]]) -> list[Any]:
    return [pytest.param(said, call, id=f"{index}-{said[:24]}") for index, (said, call) in enumerate(cases)]


@pytest.mark.parametrize(("said", "call"), _calls(VALUES))
def test_wrong_values(hopper: Context, said: str, call: Call) -> None:
    for _ in range(2):
        with pytest.raises(ArgumentError, match=f"^{said}"):
            call()
    assert not hopper.plans


@pytest.mark.parametrize(("said", "call"), _calls(TYPES))
def test_wrong_types(hopper: Context, said: str, call: Call) -> None:
    for _ in range(2):
        with pytest.raises(ArgumentTypeError, match=f"^{said}"):
            call()
    assert not hopper.plans


@pytest.mark.usefixtures("nothing_made")
def test_nothing_is_allocated_for_what_is_refused() -> None:
    for call in (
        lambda: nvfp4(X, 2.75, layout="4x8"),
        lambda: nvfp4(X, 2.75, rows_valid=DATA),
        lambda: mxfp4(FP8),
        lambda: nvfp4(X[:, :40], 2.75),
        lambda: mxfp8(X, activation="silu_mul"),
        lambda: blockwise(X, (64, 64)),
        lambda: blockwise(X, scale_layout="128x4"),
    ):
        with pytest.raises(tilewright.TilewrightError):
            call()


def test_a_gpu_without_kernels(hopper: Context) -> None:
    from tilewright import context as contexts  # noqa: PLC0415

    ada = H200._replace(name="NVIDIA L40S", capability=(8, 9))
    with (
        contexts.use(Context(hopper.registry, described=ada)),
        pytest.raises(UnsupportedDeviceError, match="L40S"),
    ):
        nvfp4(X)


def test_bytes_of_a_problem() -> None:
    assert Problem(128, 4096).bytes == 128 * 4096 * 2 + 128 * 2048 + 128 * 256
    assert Problem(1, 16, 3, x="f32", layout="linear").bytes == 3 * (64 + 8 + 1)
    assert Problem(5, 256, format="fp8_1x128", layout="m_major").bytes == 5 * 256 * 3 + 8 * 2 * 4
    assert Problem(129, 256, format="fp8_128x128", layout="row_major").bytes == 129 * 256 * 3 + 2 * 2 * 4
    assert Problem(4, 64, fusion="silu_mul", format="mxfp8", layout="8x4").bytes == 4 * 64 * 5 + 8 * 4
    assert Problem(5, 640, format="fp8_128x128", layout="packed").bytes == 5 * 640 * 3 + 8 * 2 * 4


def test_a_problem_in_words() -> None:
    assert str(Problem(5, 64)) == "quantize 5x64 bf16 -> nvfp4, scales 128x4"
    assert (
        str(Problem(5, 64, 2, fusion="silu_mul", global_scale="row", exact=False, layout="8x4"))
        == "quantize 5x64 in 2 groups bf16 -> nvfp4, scales 8x4, "
        "silu_mul, a global scale a row, fast arithmetic"
    )
    assert str(Problem(5, 64, direction="dequantize")).startswith("dequantize 5x64 nvfp4 -> bf16")
