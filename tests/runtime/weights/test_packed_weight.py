"""Packed weights: their bytes by the published layout, the exact inverse, files, versions, refusals."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("torch", reason="torch is not installed")
import torch

import tilewright
from tilewright import weight_layout
from tilewright.errors import ArgumentError, ArgumentTypeError
from tilewright.weights import PackedWeight, QuantizedWeight, pack_weight, stack, unpack_weight

SHAPES = [(8, 32), (72, 160), (64, 128), (576, 288)]
# The bits of a code in a half of a word, for the pairs 0 to 3: as docs/packed_weights.md has them.
INTEGER_BITS = ((0, 1, 2, 3), (4, 5, 6, 7), (8, 9, 10, 11), (12, 13, 14, 15))
FLOATING_BITS = ((6, 7, 8, 15), (3, 4, 5, 12), (0, 1, 2, 13), (9, 10, 11, 14))
E4M3_BITS = ((4, 5, 6, 7, 8, 9, 10, 15), (0, 1, 2, 3, 12, 13, 14, 11))
EIGHT_BITS = {"int8": ((0, 1, 2, 3, 4, 5, 6, 7), (8, 9, 10, 11, 12, 13, 14, 15)), "e4m3": E4M3_BITS}


def quantized(
    kind: str, n: int, k: int, group: int, *, dtype: torch.dtype = torch.bfloat16, seed: int = 0
) -> QuantizedWeight:
    """A random weight; `int4_zp` is `int4` with zero points."""
    generator = torch.Generator().manual_seed(seed)
    columns = 1 if group == -1 else -(-k // group)
    codes = torch.randint(0, 16, (n, k), generator=generator, dtype=torch.uint8)
    octets = torch.randint(0, 256, (n, columns), generator=generator).to(torch.uint8)
    if kind == "mxfp4":
        return QuantizedWeight(codes, octets.view(torch.float8_e8m0fnu), group, "mxfp4")
    if kind == "nvfp4":
        return QuantizedWeight(codes, octets.view(torch.float8_e4m3fn), group, "nvfp4", global_scale=0.375)
    scales = (torch.rand((n, columns), generator=generator) + 0.01).to(dtype)
    if kind in EIGHT_BITS:
        codes = torch.randint(0, 256, (n, k), generator=generator).to(torch.uint8)
        if kind == "e4m3":
            codes = codes.where((codes & 0x7F) != 0x7F, 0x80)
            return QuantizedWeight(codes, scales, group, "e4m3")
        return QuantizedWeight(codes, scales, group, "int8")
    zeros = octets & 15 if kind == "int4_zp" else None
    return QuantizedWeight(codes, scales, group, "int4", zeros)


def equal(actual: QuantizedWeight, expected: QuantizedWeight) -> bool:
    """Every field, scales by their bytes."""
    same = [
        (actual.codes, expected.codes),
        (actual.scales.view(torch.uint8), expected.scales.view(torch.uint8)),
    ]
    if actual.zeros is not None and expected.zeros is not None:
        same.append((actual.zeros, expected.zeros))
    return (
        all(torch.equal(*pair) for pair in same)
        and (actual.zeros is None) == (expected.zeros is None)
        and (actual.group, actual.format, actual.global_scale)
        == (expected.group, expected.format, expected.global_scale)
        and actual.scales.dtype == expected.scales.dtype
    )


KINDS = [
    *((kind, group) for kind in ("int4", "int4_zp") for group in (32, 64, 128, -1)),
    ("mxfp4", 32),
    ("nvfp4", 16),
    *((kind, group) for kind in EIGHT_BITS for group in (128, -1)),
]


@pytest.mark.parametrize(("kind", "group"), KINDS)
@pytest.mark.parametrize(("n", "k"), SHAPES)
def test_unpacking_undoes_packing(kind: str, group: int, n: int, k: int) -> None:
    weight = quantized(kind, n, k, group)
    packed = pack_weight(weight)
    assert (packed.n, packed.k, packed.format, packed.group) == (n, k, kind, group)
    codes = 8192 if kind in EIGHT_BITS else 4096
    assert packed.nbytes == -(-n // 64) * -(-k // 128) * (
        codes + weight_layout.FORMATS[kind].record_bytes(group)
    )
    assert equal(unpack_weight(packed), weight)


def octets_of(tensor: torch.Tensor) -> list[bytes]:
    return [bytes(row) for row in tensor.tolist()]


def code_of(packed: PackedWeight, octets: list[bytes], row: int, column: int) -> int:
    """A code, by the page's table of the bytes of elements; `octets` has the rows of `weight`."""
    warp, h, g = row % 64 // 16, row % 16 // 8, row % 8
    step, high, c, element = column % 64 // 16, column % 16 // 8, column % 8 // 2, column % 2
    thread = 16 * (32 * warp + 4 * g + c)
    if packed.format in EIGHT_BITS:
        at = column // 32 * 2048 + thread + 8 * (step % 2) + 4 * high
        bits, pair = EIGHT_BITS[packed.format], h
    else:
        at = column // 64 * 2048 + thread + 4 * step
        bits, pair = FLOATING_BITS if packed.format in {"mxfp4", "nvfp4"} else INTEGER_BITS, 2 * high + h
    word = int.from_bytes(octets[row // 64][at : at + 4], "little")
    return sum((word >> 16 * element + at & 1) << bit for bit, at in enumerate(bits[pair]))


GROUPS = {"nvfp4": 16, "int8": 128, "e4m3": 128}
"""The group sizes of tests of each format; 32 of the rest."""


@pytest.mark.parametrize("kind", weight_layout.FORMATS)
def test_elements_lie_where_the_page_says(kind: str) -> None:
    weight = quantized(kind, 72, 160, GROUPS.get(kind, 32))
    packed = pack_weight(weight)
    octets, codes = octets_of(packed.weight), weight.codes.tolist()
    for row in range(72):
        for column in range(160):
            assert code_of(packed, octets, row, column) == codes[row][column], (row, column)


def scale_bytes(octets: list[bytes], row: int, column: int, group: int, size: int) -> bytes:
    """The bytes of the scale (and zero point) of an element, by the page's order of scales; `octets` has the
    rows of `scale`."""
    halves = 2 if group <= 64 else 1
    of_half = max(64 // group, 1) if halves == 2 else 1
    half = column % 128 // 64 if halves == 2 else 0
    warp, g, h = row % 64 // 16, row % 8, row % 16 // 8
    index = (((half * 4 + warp) * 8 + g) * of_half + (column % 64 // group if of_half > 1 else 0)) * 2 + h
    start = column // 128 * 64 * halves * of_half * size + index * size
    return octets[row // 64][start : start + size]


@pytest.mark.parametrize(("kind", "group"), KINDS)
def test_scales_lie_where_the_page_says(kind: str, group: int) -> None:
    weight = quantized(kind, 72, 160, group, dtype=torch.float16)
    packed = pack_weight(weight)
    size = {"mxfp4": 1, "nvfp4": 1, "int4_zp": 4}.get(kind, 2)
    octets = octets_of(packed.scale)
    for row in range(72):
        for column in range(0, 160, 16):
            at = 0 if group == -1 else column // group
            expected = bytes(weight.scales[row, at].reshape(1).view(torch.uint8).tolist())
            if weight.zeros is not None:
                point = torch.tensor([1024 + int(weight.zeros[row, at])], dtype=torch.float16)
                expected += bytes(point.view(torch.uint8).tolist())
            assert scale_bytes(octets, row, column, 128 if group == -1 else group, size) == expected


@pytest.mark.parametrize("kind", weight_layout.FORMATS)
def test_padding_is_zeros(kind: str) -> None:
    """Values of 0 with scales whose bits are 0."""
    group = GROUPS.get(kind, 32)
    packed = pack_weight(quantized(kind, 8, 32, group))
    zero, codes, scales = (
        {"int4": 8, "int8": 128}.get(kind, 0),
        octets_of(packed.weight),
        octets_of(packed.scale),
    )
    assert {code_of(packed, codes, row, column) for row in range(8, 64) for column in range(128)} == {zero}
    assert {code_of(packed, codes, row, column) for row in range(8) for column in range(32, 128)} == {zero}
    size = {"mxfp4": 1, "nvfp4": 1, "int4_zp": 4}.get(kind, 2)
    rows, column = (range(8, 64), 0) if group == 128 else (range(64), 32)
    beyond = [scale_bytes(scales, row, column, group, size) for row in rows]
    assert {octet for octets in beyond for octet in octets} == {0}


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


@pytest.mark.parametrize(
    ("kind", "group"),
    [("int4", 128), ("int4_zp", -1), ("mxfp4", 32), ("nvfp4", 16), ("int8", -1), ("e4m3", 128)],
)
def test_a_file_gives_the_weight_back(kind: str, group: int, tmp_path: Any) -> None:
    packed = pack_weight(quantized(kind, 72, 160, group, dtype=torch.float16))
    tensors = packed.state_dict("layers.0.down_proj.")
    names = ("packed_weight", "packed_scale", "global_scale", "packed_layout")
    assert list(tensors) == [f"layers.0.down_proj.{name}" for name in names]
    torch.save(tensors, tmp_path / "layer.pt")
    loaded = PackedWeight.from_state_dict(torch.load(tmp_path / "layer.pt"), "layers.0.down_proj.")
    assert repr(loaded) == repr(packed)
    assert loaded.global_scale == packed.global_scale
    assert torch.equal(loaded.weight, packed.weight)
    assert torch.equal(loaded.scale, packed.scale)


def test_numbers_of_a_file_stay() -> None:
    """A file that was written once must mean the same for ever."""
    layouts = {
        ("int4", 128, torch.bfloat16): [1, 8, 128, 0, 128, 1],
        ("int4_zp", -1, torch.float16): [1, 8, 128, 1, -1, 2],
        ("mxfp4", 32, torch.bfloat16): [1, 8, 128, 2, 32, 0],
        ("nvfp4", 16, torch.bfloat16): [1, 8, 128, 3, 16, 0],
        ("int8", 128, torch.bfloat16): [1, 8, 128, 4, 128, 1],
        ("e4m3", -1, torch.float16): [1, 8, 128, 5, -1, 2],
    }
    for (kind, group, dtype), numbers in layouts.items():
        packed = pack_weight(quantized(kind, 8, 128, group, dtype=dtype))
        assert packed.state_dict()["packed_layout"].tolist() == numbers


def test_another_version_is_refused() -> None:
    packed = pack_weight(quantized("int4", 8, 32, 32))
    tensors = packed.state_dict("x.")
    tensors["x.packed_layout"][0] = 2
    with pytest.raises(ArgumentError) as caught:
        PackedWeight.from_state_dict(tensors, "x.")
    assert str(caught.value) == (
        "x.packed_layout: version 2 of the packed layout, expected 1\n"
        "pack the weight again from its checkpoint, with this release of tilewright"
    )
    with pytest.raises(ArgumentError, match=r"^version: version 0 of the packed layout, expected 1"):
        PackedWeight(packed.weight, packed.scale, 8, 32, "int4", 32, torch.bfloat16, version=0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x: x.pop("packed_scale"), "tensors: expected packed_weight, .*, got no packed_scale"),
        (
            lambda x: x.update(packed_layout=x["packed_layout"][:5]),
            "packed_layout: expected 6 numbers, got 5",
        ),
        (
            lambda x: x.update(packed_layout=x["packed_layout"][0]),
            r"packed_layout: expected 6 numbers, got shape \(\)",
        ),
        (
            lambda x: x.update(packed_layout=x["packed_layout"][:0]),
            r"packed_layout: expected 6 numbers, got shape \(0,\)",
        ),
        (
            lambda x: x.update(packed_layout=x["packed_layout"].double()),
            "packed_layout: expected a tensor of int64, got torch.float64",
        ),
        (
            lambda x: x.update(packed_scale=x["packed_scale"].to("meta")),
            "scale: it is on meta, weight on cpu; expected the same device",
        ),
        (lambda x: x["packed_layout"].__setitem__(3, 9), "packed_layout: expected known numbers"),
        (
            lambda x: x["packed_layout"].__setitem__(1, 72),
            r"weight: expected shape \(2, 4096\) \(72 x 32 of int4",
        ),
        (
            lambda x: x["packed_layout"].__setitem__(1, 12),
            "codes: expected a positive number of rows that is a multiple of 8",
        ),
        (lambda x: x["packed_layout"].__setitem__(4, 64), r"scale: expected shape \(1, 256\)"),
        (lambda x: x["packed_layout"].__setitem__(4, 16), "group: 16, expected one of"),
        (
            lambda x: x["packed_layout"].__setitem__(5, 0),
            "dtype: None, expected bfloat16 or float16 for int4",
        ),
        (lambda x: x.update(packed_weight=x["packed_weight"].int()), "weight: expected a tensor of uint8"),
        (lambda x: x.update(global_scale=torch.ones(2)), "global_scale: 2 factors, expected None"),
        (
            lambda x: x.update(global_scale=x["global_scale"].half()),
            "global_scale: expected a tensor of float32, got torch.float16",
        ),
    ],
)
def test_a_damaged_file_is_refused(change: Any, message: str) -> None:
    tensors = pack_weight(quantized("int4", 8, 32, 32)).state_dict()
    change(tensors)
    with pytest.raises(ArgumentError, match=f"^{message}"):
        PackedWeight.from_state_dict(tensors)


def test_a_stack_of_no_experts() -> None:
    codes, scales = torch.empty((0, 1, 4096), dtype=torch.uint8), torch.empty((0, 1, 256), dtype=torch.uint8)
    packed = PackedWeight(codes, scales, 8, 32, "mxfp4", 32)
    assert (packed.experts, packed.largest_scale) == (0, None)


def test_tensors_are_contiguous() -> None:
    packed = pack_weight(quantized("int4", 128, 32, 32))
    with pytest.raises(ArgumentError, match=r"^weight: strides \(1, 2\), expected a contiguous tensor"):
        PackedWeight(packed.weight.t().contiguous().t(), packed.scale, 128, 32, "int4", 32, torch.bfloat16)


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
        "layout.packed_shapes(8, 32, 'int4', 32)\n"
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
