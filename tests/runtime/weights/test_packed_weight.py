"""Packed weights: their bytes by the published layout, the exact inverse, files, versions, refusals."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest
import torch
from quantized_weights import EIGHT_BITS, KINDS, SHAPES, equal, quantized

import tilewright
from tilewright import weight_formats
from tilewright.errors import ArgumentError, ArgumentTypeError
from tilewright.weights import PackedWeight, QuantizedWeight, pack_weight, stack, unpack_weight

"""The group sizes of tests of each format; 32 of the rest."""


@pytest.mark.parametrize(("kind", "group"), KINDS)
@pytest.mark.parametrize(("n", "k"), SHAPES)
def test_unpacking_undoes_packing(kind: str, group: int, n: int, k: int) -> None:
    weight = quantized(kind, n, k, group)
    packed = pack_weight(weight)
    assert (packed.n, packed.k, packed.format, packed.group) == (n, k, kind, group)
    codes = 8192 if kind in EIGHT_BITS else 4096
    assert packed.nbytes == -(-n // 64) * -(-k // 128) * (
        codes + weight_formats.FORMATS[kind].record_bytes(group)
    )
    assert equal(unpack_weight(packed), weight)


def test_experts_are_packed_one_by_one() -> None:
    experts = [quantized("nvfp4", 72, 160, 16, seed=seed) for seed in range(3)]
    stacked = pack_weight(stack(experts))
    assert stacked.experts == 3
    assert repr(stacked) == "PackedWeight(nvfp4 [3, 72, 160], group 16, version 1)"
    for number, weight in enumerate(experts):
        alone = pack_weight(weight)
        assert torch.equal(stacked.expert(number).weight, alone.weight)
        assert torch.equal(stacked.expert(number).scale, alone.scale)
        assert equal(unpack_weight(stacked.expert(number)), weight)
    assert equal(unpack_weight(stacked), stack(experts))
    with pytest.raises(ArgumentError, match="index: 3, expected one of 3 experts"):
        stacked.expert(3)
    with pytest.raises(ArgumentError, match="index: 0, expected a stack of experts, got one weight"):
        stacked.expert(0).expert(0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (pack_weight, "weight: expected a QuantizedWeight, got Tensor"),
        (unpack_weight, "packed: expected a PackedWeight, got Tensor"),
        (lambda tensor: stack([tensor]), "weights: expected a QuantizedWeight, got Tensor"),
    ],
)
def test_tensors_are_no_weights(call: Any, message: str) -> None:
    with pytest.raises(ArgumentTypeError, match=message):
        call(torch.zeros(8, 32))


def test_experts_with_their_own_global_scales() -> None:
    weight = quantized("nvfp4", 8, 32, 16)
    experts = [QuantizedWeight(weight.codes, weight.scales, 16, "nvfp4", global_scale=x) for x in (0.5, 3.0)]
    packed = pack_weight(stack(experts))
    assert packed.global_scale == (0.5, 3.0)
    assert packed.expert(1).global_scale == 3.0
    assert equal(unpack_weight(packed), stack(experts))
    loaded = PackedWeight.from_state_dict(packed.state_dict())
    assert loaded.global_scale == (0.5, 3.0)


def test_a_stack_of_no_experts() -> None:
    codes, scales = torch.empty((0, 1, 4096), dtype=torch.uint8), torch.empty((0, 1, 256), dtype=torch.uint8)
    packed = PackedWeight(codes, scales, 8, 32, "mxfp4", 32)
    assert (packed.experts, packed.largest_scale) == (0, None)


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (
            quantized("int4", 12, 32, 32),
            "codes: expected a positive number of rows that is a multiple of 8, got 12",
        ),
        (
            quantized("int4", 8, 48, 16),
            "codes: expected a positive number of columns that is a multiple of 32, got 48",
        ),
        (quantized("int4", 8, 32, 16), "group: expected one of .*, got 16"),
        (
            QuantizedWeight(
                torch.full((8, 32), 0x7F, dtype=torch.uint8), torch.ones(8, 1).half(), -1, "e4m3"
            ),
            "codes: expected numbers, got NaN",
        ),
        (quantized("int8", 8, 64, 32), r"group: expected one of \(128, -1\) for int8, got 32"),
        (
            QuantizedWeight(
                torch.zeros((8, 32), dtype=torch.uint8),
                torch.ones(8, 1),
                -1,
                "int8",
                torch.ones((8, 1), dtype=torch.uint8),
            ),
            "weight: int8 with zero points has no packed layout",
        ),
    ],
)
def test_what_cannot_be_packed(weight: QuantizedWeight, message: str) -> None:
    with pytest.raises(ArgumentError, match=f"^{message}"):
        pack_weight(weight)


def test_scales_take_the_type_of_the_activations() -> None:
    weight = quantized("int4", 8, 64, 32, dtype=torch.float32)
    with pytest.raises(
        ArgumentError, match=r"^dtype: expected bfloat16 or float16, got torch.float32\npass dtype="
    ):
        pack_weight(weight)
    for dtype in (torch.bfloat16, torch.float16):
        unpacked = unpack_weight(pack_weight(weight, dtype))
        assert torch.equal(unpacked.scales, weight.scales.to(dtype))
    halves = quantized("int4", 8, 64, 32, dtype=torch.float16)
    assert pack_weight(halves).dtype == torch.float16
    assert pack_weight(halves, torch.bfloat16).dtype == torch.bfloat16
    assert pack_weight(quantized("mxfp4", 8, 64, 32), torch.bfloat16).dtype is None


@pytest.mark.parametrize(("scale", "text"), [(1e6, "1e.06 would be inf"), (1e-9, "1e-09 would be 0")])
def test_a_scale_that_its_type_cannot_hold_is_refused(scale: float, text: str) -> None:
    codes = torch.zeros((8, 32), dtype=torch.uint8)
    weight = QuantizedWeight(codes, torch.full((8, 1), scale), 32, "int4")
    with pytest.raises(ArgumentError, match=f"^dtype: a scale of {text} in torch.float16"):
        pack_weight(weight, torch.float16)
    assert pack_weight(weight, torch.bfloat16).dtype == torch.bfloat16
    zero = QuantizedWeight(codes, torch.zeros((8, 1)), 32, "int4")
    assert torch.equal(unpack_weight(pack_weight(zero, torch.float16)).scales.float(), zero.scales)


@pytest.mark.parametrize("kind", ["int8", "e4m3"])
def test_a_scale_of_the_whole_weight_is_kept_in_float32(kind: str) -> None:
    """Unless the type of the activations holds it."""
    codes = quantized(kind, 8, 256, -1).codes
    weight = QuantizedWeight(codes, torch.full((8, 1), 0.1), -1, kind, global_scale=0.5)  # type: ignore[arg-type]
    packed = pack_weight(weight, torch.bfloat16)
    assert packed.global_scale == 0.5 * float(torch.tensor(0.1))
    assert torch.equal(unpack_weight(packed).dequantize(), weight.dequantize())
    exact = QuantizedWeight(codes, torch.full((8, 1), 0.125), -1, kind)  # type: ignore[arg-type]
    assert pack_weight(exact, torch.float16).global_scale == 1.0
    experts = pack_weight(stack([weight, replace(weight, scales=weight.scales * 3)]), torch.bfloat16)
    assert experts.global_scale == tuple(0.5 * float(torch.tensor(0.1) * x) for x in (1, 3))


def test_a_shard_is_packed_as_a_weight_of_its_own() -> None:
    weight = quantized("int4_zp", 576, 288, 32)
    parts = [weight.shard("k", 0, 160), weight.shard("k", 160, 288)]
    packed = [pack_weight(part) for part in parts]
    assert [part.k for part in packed] == [160, 128]
    assert torch.equal(torch.cat([unpack_weight(part).codes for part in packed], 1), weight.codes)


def test_they_are_names_of_the_package() -> None:
    assert tilewright.pack_weight is pack_weight
    assert tilewright.PackedWeight is PackedWeight


def test_importing_the_layout_imports_no_torch() -> None:
    code = (
        "import sys, tilewright.weight_layout as layout\n"
        "layout.check_extents(8, 32)\n"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("name", ["pack_weight", "PackedWeight"])
def test_without_torch_the_names_say_what_to_install(name: str) -> None:
    code = f"import sys; sys.modules['torch'] = None\nimport tilewright\ntilewright.{name}"
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert done.stderr.splitlines()[-1] == (
        f"ModuleNotFoundError: tilewright.{name} needs torch: pip install 'tilewright[torch]'"
    )
