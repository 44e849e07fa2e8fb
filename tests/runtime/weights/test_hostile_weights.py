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
from tilewright.weights import PackedWeight, QuantizedWeight, pack_weight, stack

VALUES = (*TENSORS, *plain_values(), ODD)
WEIGHT = QuantizedWeight(torch.ones(8, 32, dtype=torch.uint8), torch.ones(8, 1).bfloat16(), -1, "int4")
ENDS = torch.tensor([3, 5], dtype=torch.int32)


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
