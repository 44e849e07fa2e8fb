"""Readers of checkpoints, against their formats written out field by field, and what they refuse."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from checkpoint_words import codes_of, scales_of, word, words_along

from tilewright import weights
from tilewright.errors import ArgumentError

AWQ_ROWS = (0, 2, 4, 6, 1, 3, 5, 7)  # of a word's fields, from the lowest bits


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("stored", ["gptq", "gptq_v2"])
def test_gptq_layers_are_decoded(bits: Any, stored: Any) -> None:
    n, k, group = 16, 96, 32
    codes = codes_of(n, k, bits)
    zeros = codes_of(n, 3, bits, seed=1).clamp(min=1)
    zeros[0] = torch.tensor([1, 2**bits - 1, 2 ** (bits - 1)])
    fields = zeros - 1 if stored == "gptq" else zeros
    weight = weights.from_gptq(
        qweight=words_along(codes, bits).t().contiguous(),
        qzeros=words_along(fields.t(), bits),
        scales=scales_of(n, 3).t().contiguous(),
        g_idx=torch.arange(k, dtype=torch.int32) // group,
        bits=bits,
        checkpoint_format=stored,
    )
    assert (weight.format, weight.group) == (f"int{bits}", group)
    assert torch.equal(weight.codes, codes)
    assert weight.zeros is not None
    assert torch.equal(weight.zeros, zeros)
    assert torch.equal(weight.scales, scales_of(n, 3))


def gptq_layer(**changes: Any) -> dict[str, Any]:
    """The tensors of a symmetric layer of 16 x 64 in groups of 32."""
    tensors = {
        "qweight": words_along(codes_of(16, 64, 4), 4).t().contiguous(),
        "qzeros": torch.full((2, 2), 0x77777777, dtype=torch.int32),
        "scales": torch.ones((2, 16), dtype=torch.float16),
        "g_idx": torch.arange(64, dtype=torch.int32) // 32,
    }
    return tensors | changes


def test_symmetric_gptq_has_no_zero_points() -> None:
    assert weights.from_gptq(**gptq_layer()).zeros is None
    # The same bytes mean other zero points in the second format.
    zeros = weights.from_gptq(**gptq_layer(), checkpoint_format="gptq_v2").zeros
    assert zeros is not None
    assert set(zeros.flatten().tolist()) == {7}


def test_one_group_is_a_whole_row() -> None:
    layer = gptq_layer(
        qzeros=torch.full((1, 2), 0x77777777, dtype=torch.int32),
        scales=torch.ones((1, 16), dtype=torch.float16),
        g_idx=torch.zeros(64, dtype=torch.int32),
    )
    assert weights.from_gptq(**layer).group == -1
    assert weights.from_gptq(**layer, group=-1).group == -1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"g_idx": torch.arange(64, dtype=torch.int32) % 2}, "g_idx: columns of a group are not neighbours"),
        ({"g_idx": torch.arange(32, dtype=torch.int32)}, r"g_idx: expected shape \(64,\)"),
        ({"qzeros": torch.full((2, 2), -1, dtype=torch.int32)}, "qzeros: a field of 15, .*'gptq_v2'"),
        ({"qzeros": torch.zeros((2, 3), dtype=torch.int32)}, r"qzeros: expected shape \(2, 2\)"),
        ({"qzeros": torch.zeros((2, 2))}, "qzeros: expected a tensor of int32, got torch.float32"),
        ({"scales": torch.ones((16, 2), dtype=torch.float16)}, r"scales: expected shape \(2, 16\)"),
        ({"group": 64}, "scales: 2 scales for 64 of k in groups of 64, expected 1"),
        ({"bits": 3}, "bits: 3, expected 4 or 8"),
        ({"checkpoint_format": "marlin"}, "checkpoint_format: 'marlin', expected one of gptq, gptq_v2"),
        (
            {"qweight": torch.zeros((8,), dtype=torch.int32)},
            "qweight: expected .k . 4 / 32, n., none of them 0",
        ),
    ],
)
def test_a_wrong_gptq_layer_is_refused_by_name(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ArgumentError, match=f"(?s)^{message}"):
        weights.from_gptq(**gptq_layer(**changes))


def test_groups_that_do_not_divide_k_are_asked_for() -> None:
    layer = gptq_layer(
        qzeros=torch.full((3, 2), 0x77777777, dtype=torch.int32),
        scales=torch.ones((3, 16), dtype=torch.float16),
        g_idx=None,
    )
    with pytest.raises(ArgumentError, match=r"group: not given, .*64 of k have 3 scales"):
        weights.from_gptq(**layer)
    assert weights.from_gptq(**layer, group=24).group == 24


def awq_words(values: torch.Tensor) -> torch.Tensor:
    """int32 [columns, n/8] of values [n, columns]."""
    columns = values.int().t().tolist()
    parts = [
        [word([column[8 * c + row] for row in AWQ_ROWS], 4) for c in range(len(column) // 8)]
        for column in columns
    ]
    return torch.tensor(parts, dtype=torch.int32)


def test_awq_layers_are_decoded() -> None:
    n, k, group = 24, 64, 32
    codes, zeros = codes_of(n, k, 4), codes_of(n, 2, 4, seed=1)
    weight = weights.from_awq(awq_words(codes), awq_words(zeros), scales_of(n, 2).t().contiguous())
    assert (weight.format, weight.group) == ("int4", group)
    assert torch.equal(weight.codes, codes)
    assert weight.zeros is not None
    assert torch.equal(weight.zeros, zeros)
    assert torch.equal(weight.scales, scales_of(n, 2))


def test_awq_in_one_group() -> None:
    codes, zeros = codes_of(24, 64, 4), codes_of(24, 1, 4, seed=1)
    weight = weights.from_awq(awq_words(codes), awq_words(zeros), scales_of(24, 1).t().contiguous())
    assert weight.group == -1  # one scale for each row
    assert torch.equal(weight.codes, codes)
    assert weight.zeros is not None
    assert torch.equal(weight.zeros, zeros)


def test_awq_of_words_that_lie_apart() -> None:
    """Tensors with a stride along n, also where one group leaves a single row of zero points."""
    words = [awq_words(codes_of(24, 64, 4)), awq_words(codes_of(24, 1, 4, seed=1))]
    apart = [torch.stack((x, x + 1), dim=-1)[..., 0] for x in words]
    weight = weights.from_awq(*apart, scales_of(24, 1).t().contiguous())
    expected = weights.from_awq(*words, scales_of(24, 1).t().contiguous())
    assert torch.equal(weight.dequantize(), expected.dequantize())


def test_awq_refuses_the_version_gemv() -> None:
    """It has words along k, so n is the first extent."""
    with pytest.raises(ArgumentError, match=r"^qzeros: expected shape \(24, 8\)"):
        weights.from_awq(
            torch.zeros((24, 8), dtype=torch.int32),
            torch.zeros((24, 1), dtype=torch.int32),
            torch.ones((24, 2), dtype=torch.float16),
        )
    with pytest.raises(ArgumentError, match=r"^scales: expected shape \(2, 24\)"):
        weights.from_awq(
            torch.zeros((64, 3), dtype=torch.int32),
            torch.zeros((2, 3), dtype=torch.int32),
            torch.ones((24, 2), dtype=torch.float16),
        )


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("group", [32, -1])
def test_pack_quantized_layers_are_decoded(bits: Any, group: int) -> None:
    """Also an n and a k that fill no whole words."""
    n, k = 10, 70
    columns = 3 if group == 32 else 1
    codes, zeros = codes_of(n, k, bits), codes_of(n, columns, bits, seed=1)
    tensors = {
        "weight_packed": words_along(codes, bits),
        "weight_scale": scales_of(n, columns),
        "weight_shape": torch.tensor([n, k]),
    }
    packed_zeros = words_along(zeros.t(), bits).t().contiguous()
    weight = weights.from_pack_quantized(**tensors, weight_zero_point=packed_zeros, bits=bits, group=group)
    assert (weight.format, weight.group) == (f"int{bits}", group)
    assert torch.equal(weight.codes, codes)
    assert weight.zeros is not None
    assert torch.equal(weight.zeros, zeros)
    assert weights.from_pack_quantized(**tensors, bits=bits, group=group).zeros is None


def test_pack_quantized_refuses_act_order() -> None:
    tensors = {
        "weight_packed": words_along(codes_of(8, 64, 4), 4),
        "weight_scale": scales_of(8, 2),
        "weight_shape": torch.tensor([8, 64]),
    }
    order = torch.arange(64) // 32
    assert weights.from_pack_quantized(**tensors, weight_g_idx=order).group == 32
    assert weights.from_pack_quantized(**tensors, weight_g_idx=torch.full_like(order, -1)).group == 32
    with pytest.raises(ArgumentError, match=r"^weight_g_idx: columns of a group are not neighbours"):
        weights.from_pack_quantized(**tensors, weight_g_idx=order.flip(0))
    with pytest.raises(
        ArgumentError, match=r"^weight_packed: expected shape \(8, 9\) \(weight_shape is 8 x 72\)"
    ):
        weights.from_pack_quantized(**tensors | {"weight_shape": torch.tensor([8, 72])})


@pytest.mark.parametrize("shape", [(8, 1), (8, 2), (1,)])
def test_int_quantized_layers_are_decoded(shape: tuple[int, ...]) -> None:
    values = torch.arange(-128, 128, dtype=torch.int8).reshape(8, 32)
    scales = scales_of(8, 2).flatten()[: torch.Size(shape).numel()].reshape(shape)
    zeros = torch.full(shape, -5, dtype=torch.int8)
    weight = weights.from_int_quantized(values, scales, zeros)
    expected = scales if len(shape) == 2 else scales.expand(8, 1)
    spread = expected.double().repeat_interleave(32 // expected.shape[1], dim=1)
    assert torch.equal(weight.dequantize(), (values.double() + 5) * spread)
    symmetric = weights.from_int_quantized(values, scales)
    assert torch.equal(symmetric.dequantize(), values.double() * spread)
