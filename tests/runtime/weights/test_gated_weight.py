"""Gated packed weights: the order of their rows, the exact inverse, files, refusals."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from quantized_weights import KINDS, equal, quantized

from tilewright.errors import ArgumentError, ArgumentTypeError
from tilewright.weights import PackedWeight, concatenate, pack_weight, stack, unpack_weight


@pytest.mark.parametrize(("kind", "group"), KINDS)
@pytest.mark.parametrize(("n", "k"), [(16, 32), (80, 160), (288, 288)])
def test_unpacking_undoes_packing(kind: str, group: int, n: int, k: int) -> None:
    weight = quantized(kind, n, k, group)
    packed = pack_weight(weight, gated=True)
    assert packed.gated
    assert packed.nbytes == pack_weight(weight).nbytes
    assert equal(unpack_weight(packed), weight)


@pytest.mark.parametrize(("kind", "group"), KINDS)
def test_rows_of_gate_and_up_are_packed_in_turn(kind: str, group: int) -> None:
    """Row 16 i + j is row 8 i + j of gate, row 16 i + 8 + j that of up: as docs/packed_weights.md has it."""
    gate, up = (quantized(kind, 40, 160, group, seed=seed) for seed in (1, 2))
    packed = pack_weight(concatenate([gate, up]), gated=True)
    rows = [part.shard("n", 8 * i, 8 * i + 8) for i in range(5) for part in (gate, up)]
    in_turn = pack_weight(concatenate(rows))
    assert torch.equal(packed.weight, in_turn.weight)
    assert torch.equal(packed.scale, in_turn.scale)


def test_experts_and_scales_of_rows() -> None:
    experts = [quantized("int4", 48, 64, -1, seed=seed) for seed in range(2)]
    packed = pack_weight(stack(experts), torch.bfloat16, gated=True)
    assert packed.expert(1).gated
    assert equal(unpack_weight(packed), stack(experts))


def test_a_file_knows_it(tmp_path: Path) -> None:
    packed = pack_weight(quantized("nvfp4", 32, 96, 16), gated=True)
    assert repr(packed) == "PackedWeight(nvfp4 [32, 96], group 16, gated, version 1)"
    tensors = packed.state_dict("gate_up.")
    assert tensors["gate_up.packed_layout"].tolist() == [1, 32, 96, 3, 16, 0, 1]
    torch.save(tensors, tmp_path / "layer.pt")
    loaded = PackedWeight.from_state_dict(torch.load(tmp_path / "layer.pt"), "gate_up.")
    assert repr(loaded) == repr(packed)
    assert equal(unpack_weight(loaded), unpack_weight(packed))
    assert loaded.to("cpu").gated
    tensors["gate_up.packed_layout"][6] = 0
    assert not PackedWeight.from_state_dict(tensors, "gate_up.").gated
    tensors["gate_up.packed_layout"][6] = 2
    with pytest.raises(ArgumentError, match="packed_layout: expected known numbers"):
        PackedWeight.from_state_dict(tensors, "gate_up.")


def test_halves_have_rows_in_units_of_8() -> None:
    weight = quantized("int4", 24, 64, 32)
    message = "n: 24, expected a multiple of 16 for a gated weight: 8 rows of gate and 8 of up in turn"
    with pytest.raises(ArgumentError, match=message):
        pack_weight(weight, gated=True)
    packed = pack_weight(weight)
    with pytest.raises(ArgumentError, match=message):
        PackedWeight(packed.weight, packed.scale, 24, 64, "int4", 32, torch.bfloat16, gated=True)
    with pytest.raises(ArgumentTypeError, match="gated: expected a bool, got str"):
        pack_weight(weight, gated="yes")  # type: ignore[arg-type]
