"""`mixed_grouped_gemm` with FP8 activations: from stacks of weights to products, on kernels of the host."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

import tilewright
from tilewright.context import Context, use
from tilewright.errors import ArgumentError
from tilewright.weights import PackedWeight, QuantizedWeight, pack_weight, stack

E4M3 = torch.float8_e4m3fn


def numbers(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def int32(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32)


def int4(seed: int, factor: float = 1.0) -> QuantizedWeight:
    codes = torch.randint(0, 16, (72, 160), generator=torch.Generator().manual_seed(seed), dtype=torch.uint8)
    return QuantizedWeight(codes, numbers(72, 2, seed=seed).bfloat16(), 128, "int4", None, factor)


def mxfp4(seed: int) -> QuantizedWeight:
    generator = torch.Generator().manual_seed(seed)
    codes = torch.randint(0, 16, (24, 64), generator=generator, dtype=torch.uint8)
    scales = torch.randint(115, 130, (24, 2), generator=generator, dtype=torch.uint8)
    return QuantizedWeight(codes, scales.view(torch.float8_e8m0fnu), 32, "mxfp4")


def experts(*factors: float) -> tuple[PackedWeight, list[torch.Tensor]]:
    """A stack of INT4 weights with these global scales, and the weights [n, k] in float64."""
    weights = [int4(seed, factor) for seed, factor in enumerate(factors)]
    return pack_weight(stack(weights)), [weight.dequantize().double() for weight in weights]


def test_each_row_has_the_weight_of_its_expert(fp8_experts_host: Context) -> None:
    """With the expert's global scale and bias, the row's factor, and alpha."""
    packed, decoded = experts(0.5, 2.0, 0.25)
    a, a_scale = numbers(8, 160).to(E4M3), numbers(8, seed=3)
    bias = torch.arange(3 * 72).view(3, 72).bfloat16()
    groups = [2, 0, 0, -1, 1, -1, 1, 2]
    with use(fp8_experts_host):
        d = tilewright.mixed_grouped_gemm(
            a, packed, a_scale=a_scale, alpha=-0.5, bias=bias, group_of_row=int32(2, 0, 0, -1, 1, 3, 1, 2)
        )
    assert d.dtype == torch.bfloat16
    for row, group in enumerate(groups):
        if group >= 0:
            product = a[row].double() @ decoded[group].t()
            expected = -0.5 * a_scale[row].double() * product + bias[group].double()
            torch.testing.assert_close(d[row].double(), expected, rtol=2.0**-8, atol=2e-3)


def test_each_expert_has_rows_of_its_own(fp8_experts_host: Context) -> None:
    packed = pack_weight(stack([mxfp4(0), mxfp4(1), mxfp4(2)]))
    a, a_scale = numbers(3, 5, 64).to(E4M3), numbers(3, 5, seed=1)
    with use(fp8_experts_host):
        d = tilewright.mixed_grouped_gemm(a, packed, a_scale=a_scale, rows_valid=int32(5, 0, 3))
    for group, count in enumerate((5, 0, 3)):
        product = a[group, :count].double() @ mxfp4(group).dequantize().double().t()
        expected = product * a_scale[group, :count, None].double()
        torch.testing.assert_close(d[group, :count].double(), expected, rtol=2.0**-8, atol=2e-3)


def test_sums_that_stay_in_the_tensor_core(fp8_experts_host: Context) -> None:
    """The kernel is another one, and gets the largest scale of all experts."""
    packed = pack_weight(stack([mxfp4(0), mxfp4(1), mxfp4(2)]))
    assert packed.largest_scale == 4.0
    a, ends = numbers(5, 64).to(E4M3), int32(2, 2, 5)
    with use(fp8_experts_host):
        d = tilewright.mixed_grouped_gemm(a, packed, group_ends=ends, fast_accum=True)
        expected = tilewright.mixed_grouped_gemm(a, packed, group_ends=ends)
        smaller = replace(packed, largest_scale=2.0**-9)
        above = tilewright.mixed_grouped_gemm(a, smaller, group_ends=ends, fast_accum=True)
    assert torch.equal(d, expected)
    assert bool(above.isnan().any())


def test_one_scale_for_all_experts_and_none_for_rows(fp8_experts_host: Context) -> None:
    packed, decoded = experts(1.0, 1.0)
    packed = replace(packed, global_scale=0.125)
    a = torch.eye(160).to(E4M3)
    with use(fp8_experts_host):
        d = tilewright.mixed_grouped_gemm(a, packed, group_ends=int32(0, 160))
    assert torch.equal(d, (0.125 * decoded[1].t()).bfloat16())


def test_it_is_compiled_as_one_graph(fp8_experts_host: Context) -> None:
    packed, _ = experts(0.5, 2.0)
    a, scale = numbers(5, 160).to(E4M3), numbers(5, seed=3)

    def call(x: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
        return tilewright.mixed_grouped_gemm(x, packed, a_scale=scale, group_ends=ends) + 1

    compiled = torch.compile(call, backend="eager", fullgraph=True)
    with use(fp8_experts_host):
        for ends in (int32(2, 5), int32(5, 5)):
            assert torch.equal(compiled(a, ends), call(a, ends))


@pytest.mark.parametrize(
    ("a", "options", "message"),
    [
        (torch.ones(4, 160).bfloat16(), {"a_scale": torch.ones(4)}, "a_scale: expected None with"),
        (torch.ones(4, 160).half(), {}, "a: torch.float16, expected torch.bfloat16"),
        (torch.ones(4, 32).to(E4M3), {}, "a: 32 columns, expected 160, the weight's k"),
        (
            torch.ones(4, 160).to(E4M3), {"out": torch.empty(4, 72).half()},
            "out: torch.float16, expected torch.bfloat16: the type of the weight's scales",
        ),
        (torch.ones(4, 160).to(E4M3), {"a_scale": torch.ones(3)}, "a_scale: "),
        (torch.ones(4, 160).to(E4M3), {"group_ends": None}, "group_of_row: expected one of"),
        (torch.ones(4, 160).to(E4M3), {"fast_accum": True}, "fast_accum: expected False for int4_g128"),
        (torch.ones(4, 160).bfloat16(), {"fast_accum": True}, "fast_accum: expected False with torch.b"),
    ],
)  # fmt: skip
def test_what_it_refuses(
    fp8_experts_host: Context, a: torch.Tensor, options: dict[str, Any], message: str
) -> None:
    call = {"group_ends": int32(2, 4)} | options
    with use(fp8_experts_host), pytest.raises(ArgumentError) as caught:
        tilewright.mixed_grouped_gemm(a, experts(1.0, 1.0)[0], **call)
    assert str(caught.value).startswith(message), caught.value


def test_nvfp4_is_refused(fp8_experts_host: Context) -> None:
    weight = QuantizedWeight(
        torch.zeros(8, 32, dtype=torch.uint8), numbers(8, 2).abs().to(E4M3), 16, "nvfp4", None, 0.5
    )
    with use(fp8_experts_host), pytest.raises(ArgumentError, match="weight_format: "):
        tilewright.mixed_grouped_gemm(
            torch.ones(4, 32).to(E4M3), pack_weight(stack([weight, weight])), group_ends=int32(2, 4)
        )
