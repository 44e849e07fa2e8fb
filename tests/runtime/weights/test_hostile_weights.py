"""Fields of weights, and options of products by them, that no caller should pass: what is wrong is said as a
TilewrightError, in a short message. `tilewright.contract.hostile` does the same for ops."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

import pytest
import torch

import tilewright
from tilewright.context import Context, use
from tilewright.contract.hostile import ODD, TENSORS, plain_values
from tilewright.errors import TilewrightError
from tilewright.weights import (
    PackedWeight,
    QuantizedWeight,
    concatenate,
    from_awq,
    from_fp8,
    from_gptq,
    from_int_quantized,
    from_modelopt_nvfp4,
    from_mxfp4,
    from_nvfp4_pack_quantized,
    from_pack_quantized,
    pack_weight,
    stack,
    unpack_weight,
)

VALUES = (*TENSORS, *plain_values(), ODD)
WEIGHT = QuantizedWeight(torch.ones(8, 32, dtype=torch.uint8), torch.ones(8, 1).bfloat16(), -1, "int4")
ENDS = torch.tensor([3, 5], dtype=torch.int32)
BYTES = torch.ones(8, 32, dtype=torch.uint8)
WORDS = torch.full((32, 1), 0x77777777, dtype=torch.int32)
ROWS = torch.ones(8, 1)
FP4_SCALES = torch.ones(8, 4).to(torch.float8_e4m3fn)

READERS: dict[Callable[..., QuantizedWeight], dict[str, Any]] = {
    from_awq: {"qweight": WORDS, "qzeros": WORDS[:1], "scales": ROWS.T.half(), "group": -1},
    from_fp8: {"weight": BYTES.view(torch.float8_e4m3fn), "scale": ROWS, "block": (8, 32)},
    from_gptq: {
        "qweight": WORDS[:4].expand(4, 8), "qzeros": WORDS[:1], "scales": ROWS.T.half(), "group": 32,
        "g_idx": torch.zeros(32, dtype=torch.int32), "bits": 4, "checkpoint_format": "gptq",
    },
    from_int_quantized: {
        "weight": BYTES.view(torch.int8), "weight_scale": ROWS, "weight_zero_point": None, "group": 32,
    },
    from_modelopt_nvfp4: {"weight": BYTES, "weight_scale": FP4_SCALES, "weight_scale_2": torch.ones(())},
    from_mxfp4: {"blocks": BYTES.view(8, 2, 16), "scales": BYTES[:, :2]},
    from_nvfp4_pack_quantized: {
        "weight_packed": BYTES, "weight_scale": FP4_SCALES, "weight_global_scale": torch.ones(1),
    },
    from_pack_quantized: {
        "weight_packed": WORDS[:8].expand(8, 4), "weight_scale": ROWS, "weight_shape": torch.tensor([8, 32]),
        "weight_zero_point": WORDS[:1], "weight_g_idx": torch.zeros(32, dtype=torch.int32), "bits": 4,
        "group": 32,
    },
}  # fmt: skip


def attempt(call: Callable[..., Any], arguments: Mapping[str, Any], name: str) -> None:
    """The call with each value in turn in the place of one argument: it may be right."""
    for index, value in enumerate(VALUES):
        error: Exception | None = None
        try:
            call(**{**arguments, name: value})
        except Exception as caught:
            error = caught
        what = f"{name} = value {index}, {type(value)}"
        assert error is None or isinstance(error, TilewrightError), f"{what}: {error!r:.300}"
        assert len(str(error)) < 2000, what


def of(weight: object) -> dict[str, Any]:
    """The fields of a weight that its constructor takes."""
    return {field.name: getattr(weight, field.name) for field in fields(weight) if field.init}  # type: ignore[arg-type]


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.__name__)
def test_any_argument_of_a_reader(reader: Callable[..., QuantizedWeight]) -> None:
    arguments = READERS[reader]
    assert tuple(reader(**arguments).codes.shape)[-1] in {32, 64}
    for name in arguments:
        attempt(reader, arguments, name)


def test_any_list_of_weights() -> None:
    attempt(stack, {}, "experts")
    attempt(concatenate, {}, "projections")
    for value in (WEIGHT, (WEIGHT, None)):
        with pytest.raises(tilewright.errors.ArgumentTypeError):
            stack(value)  # type: ignore[arg-type]


def test_any_weight_and_type_to_pack() -> None:
    attempt(pack_weight, {}, "weight")
    attempt(pack_weight, {"weight": WEIGHT}, "dtype")
    attempt(unpack_weight, {}, "packed")


@pytest.mark.parametrize("name", ["axis", "start", "stop"])
def test_any_shard(name: str) -> None:
    attempt(WEIGHT.shard, {"axis": "n", "start": 0, "stop": 8}, name)


def test_a_shape_of_real_numbers_is_refused() -> None:
    """A shape of 8.7 rows must not be read as one of 8."""
    arguments = READERS[from_pack_quantized] | {"weight_shape": torch.tensor([8.7, 32.0])}
    with pytest.raises(tilewright.errors.ArgumentTypeError, match="weight_shape: expected a tensor of int32"):
        from_pack_quantized(**arguments)


@pytest.mark.parametrize("name", list(of(WEIGHT)))
def test_any_field_of_a_quantized_weight(name: str) -> None:
    attempt(QuantizedWeight, of(WEIGHT), name)


@pytest.mark.parametrize("name", ["weight", "scale", "n", "k", "format", "group", "global_scale", "version"])
def test_any_field_of_a_packed_weight(name: str) -> None:
    attempt(PackedWeight, of(pack_weight(WEIGHT)), name)


def test_any_tensor_of_a_file() -> None:
    tensors = pack_weight(WEIGHT).state_dict()
    for name in tensors:
        attempt(lambda **x: PackedWeight.from_state_dict(x), tensors, name)


def test_any_expert() -> None:
    for weight in (stack([WEIGHT, WEIGHT]), pack_weight(stack([WEIGHT, WEIGHT]))):
        attempt(weight.expert, {}, "index")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float8_e4m3fn], ids=str)
@pytest.mark.parametrize("name", ["a", "weight", "out", "out_dtype", "alpha", "fast_accum"])
def test_any_argument_of_a_product(packed_hosts: Context, name: str, dtype: torch.dtype) -> None:
    with use(packed_hosts):
        arguments = {"a": torch.ones(5, 32).to(dtype), "weight": pack_weight(WEIGHT)}
        attempt(tilewright.mixed_gemm, arguments, name)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float8_e4m3fn], ids=str)
@pytest.mark.parametrize("name", ["a", "weight", "out", "alpha", "group_ends"])
def test_any_argument_of_a_product_of_groups(packed_hosts: Context, name: str, dtype: torch.dtype) -> None:
    weight = pack_weight(stack([WEIGHT, WEIGHT]))
    with use(packed_hosts):
        arguments = {"a": torch.ones(5, 32).to(dtype), "weight": weight, "group_ends": ENDS}
        attempt(tilewright.mixed_grouped_gemm, arguments, name)
