"""`mixed_grouped_gemm`: stacks of experts from real libraries to products, on kernels of the host."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from golden_vectors import golden

import tilewright
from tilewright import weights
from tilewright.context import Context, use
from tilewright.errors import ArgumentError, ArgumentTypeError
from tilewright.families.mixed_grouped_gemm.op import groups_of_rows
from tilewright.families.mixed_grouped_gemm.problem import Problem
from tilewright.weights import PackedWeight, QuantizedWeight, pack_weight, stack


def layer(name: str) -> QuantizedWeight:
    """A layer as the reader reads it."""
    case = golden()[name]
    weight: QuantizedWeight = getattr(weights, case.reader)(**case.tensors, **case.options)
    return weight


def experts(*factors: float) -> tuple[PackedWeight, torch.Tensor]:
    """A stack of one NVFP4 layer whose global scales differ, and its weights [experts, n, k] in float64."""
    weight = layer("nvfp4_modelopt")
    stacked = stack([replace(weight, global_scale=factor) for factor in factors])
    return pack_weight(stacked), torch.stack([weight.dequantize() / weight.global_scale * f for f in factors])


def int32(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32)


GROUPS = {
    "group_ends": (int32(2, 2, 7), [0, 0, 2, 2, 2, 2, 2, -1]),
    "group_of_row": (int32(2, 0, 0, -1, 1, 3, 1, 2), [2, 0, 0, -1, 1, -1, 1, 2]),
}


@pytest.mark.parametrize("argument", GROUPS)
def test_each_row_has_the_weight_of_its_expert(experts_host: Context, argument: str) -> None:
    """With the global scale of the expert, alpha, and the expert's bias."""
    packed, decoded = experts(0.5, 2.0, 0.25)
    layout, groups = GROUPS[argument]
    a = torch.randn((8, packed.k), generator=torch.Generator().manual_seed(0)).bfloat16()
    bias = torch.arange(3 * packed.n).view(3, packed.n).bfloat16()
    with use(experts_host):
        d = tilewright.mixed_grouped_gemm(a, packed, alpha=-0.5, bias=bias, **{argument: layout})
    for row, group in enumerate(groups):
        if group >= 0:
            expected = -0.5 * (a[row].double() @ decoded[group].t()) + bias[group].double()
            torch.testing.assert_close(d[row].double(), expected, rtol=2.0**-8, atol=1e-3)


def test_each_expert_has_rows_of_its_own(experts_host: Context) -> None:
    packed, decoded = experts(1.0, 1.0, 4.0)
    a = torch.randn((3, 5, packed.k), generator=torch.Generator().manual_seed(0)).bfloat16()
    counts = int32(5, 0, 3)
    with use(experts_host):
        d = tilewright.mixed_grouped_gemm(a, packed, rows_valid=counts)
    for group, count in enumerate(counts.tolist()):
        expected = a[group, :count].double() @ decoded[group].t()
        torch.testing.assert_close(d[group, :count].double(), expected, rtol=2.0**-8, atol=1e-3)


def test_factors_of_experts_are_made_once() -> None:
    """A call that made them would copy them to the GPU, wait for the copy, and fit in no CUDA graph."""
    packed, _ = experts(0.5, 2.0)
    assert packed.group_factors is not None
    assert packed.group_factors.tolist() == [0.5, 2.0]
    assert packed.to("meta").group_factors.is_meta
    assert packed.expert(1).group_factors is None
    assert replace(packed, global_scale=0.125).group_factors is None
    assert PackedWeight.from_state_dict(packed.state_dict()).group_factors.tolist() == [0.5, 2.0]


def test_one_scale_for_all_experts(experts_host: Context) -> None:
    """No tensor of factors is made."""
    packed, decoded = experts(1.0, 1.0)
    packed = replace(packed, global_scale=0.125)
    a = torch.eye(packed.k, dtype=torch.bfloat16)
    with use(experts_host):
        d = tilewright.mixed_grouped_gemm(a, packed, group_ends=int32(0, packed.k))
    assert torch.equal(d.double(), 0.125 * decoded[1].t())


def test_it_is_compiled_as_one_graph(experts_host: Context) -> None:
    packed, _ = experts(0.5, 2.0)
    a = torch.randn((5, packed.k), generator=torch.Generator().manual_seed(0)).bfloat16()

    def call(x: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
        return tilewright.mixed_grouped_gemm(x, packed, group_ends=ends) + 1

    compiled = torch.compile(call, backend="eager", fullgraph=True)
    with use(experts_host):
        for ends in (int32(2, 5), int32(5, 5)):
            assert torch.equal(compiled(a, ends), call(a, ends))


@pytest.mark.parametrize("argument", GROUPS)
def test_without_experts_all_rows_are_padding(experts_host: Context, argument: str) -> None:
    layout = int32(*[0] * 4) if argument == "group_of_row" else int32()
    with use(experts_host):
        d = tilewright.packed_grouped_gemm(
            torch.ones(4, 64).bfloat16(),
            torch.empty((0, 1, 4096), dtype=torch.uint8),
            torch.empty((0, 1, 128), dtype=torch.uint8),
            n=8,
            bias=torch.ones(0, 8).bfloat16(),
            out=torch.full((4, 8), torch.nan).bfloat16(),
            **{argument: layout},
        )
    assert torch.equal(d, torch.zeros_like(d))


def test_groups_begin_at_multiples_of_the_alignment() -> None:
    problem = Problem(20, 8, 32, 3, row_alignment=8)
    values = {"a": torch.empty(20, 32), "group_ends": int32(3, 8, 18)}
    assert groups_of_rows(values, problem).tolist() == [0] * 3 + [-1] * 5 + [2] * 10 + [-1] * 2


@pytest.mark.parametrize("alpha", [0.0, -0.0])
def test_without_a_product_rows_are_the_bias_of_their_expert(experts_host: Context, alpha: float) -> None:
    """Neither a nor the weights are read."""
    packed, _ = experts(1.0, 1.0)
    a = torch.full((5, packed.k), torch.nan, dtype=torch.bfloat16)
    bias = torch.arange(2 * packed.n).view(2, packed.n).bfloat16()
    with use(experts_host):
        d = tilewright.mixed_grouped_gemm(
            a, packed, group_of_row=int32(1, 0, -1, 1, 7), alpha=alpha, bias=bias
        )
    assert torch.equal(d, torch.stack([bias[1], bias[0], 0 * bias[0], bias[1], 0 * bias[0]]))


@pytest.mark.parametrize(
    ("a", "weight", "groups", "message"),
    [
        (torch.ones(4, 64), lambda: torch.ones(8, 64), ("group_ends",), "weight: expected a PackedWeight"),
        (
            torch.ones(4, 64).bfloat16(),
            lambda: pack_weight(layer("nvfp4_modelopt")),
            ("group_ends",),
            "weight: one weight, expected a stack of experts\nmixed_gemm",
        ),
        (
            torch.ones(4, 32).bfloat16(),
            lambda: experts(1.0, 1.0)[0],
            ("group_ends",),
            "a: 32 columns, expected 64, the weight's k",
        ),
        (
            torch.ones(4, 64).bfloat16(),
            lambda: experts(1.0, 1.0)[0],
            (),
            "group_of_row: expected one of group_of_row, group_ends and rows_valid, got none of them",
        ),
        (
            torch.ones(4, 64).bfloat16(),
            lambda: experts(1.0, 1.0)[0],
            ("group_ends", "rows_valid"),
            "group_of_row: expected one of group_of_row, group_ends and rows_valid, got group_ends and",
        ),
        (
            torch.ones(4, 64).bfloat16(),
            lambda: experts(1.0, 1.0)[0],
            ("rows_valid",),
            "a: its shape is [4, 64]; expected three dimensions, the batch first",
        ),
        (
            torch.ones(4, 64).half(),
            lambda: pack_weight(stack([layer("mxfp4_deepseek")] * 2)),
            ("group_ends",),
            "a: expected bf16 for mxfp4, got f16",
        ),
    ],
)
def test_what_it_refuses(
    experts_host: Context, a: torch.Tensor, weight: Any, groups: tuple[str, ...], message: str
) -> None:
    layouts: dict[str, Any] = {name: int32(2, 4) for name in groups}
    with use(experts_host), pytest.raises(ArgumentError) as caught:
        tilewright.mixed_grouped_gemm(a, weight(), **layouts)
    assert str(caught.value).startswith(message)
    assert isinstance(caught.value, ArgumentTypeError) == ("a PackedWeight" in message)
