"""Files of packed weights: what is written comes back, and damaged files are refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from quantized_weights import quantized

from tilewright.errors import ArgumentError
from tilewright.weights import PackedWeight, pack_weight

"""The group sizes of tests of each format; 32 of the rest."""


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
