"""Gated products of experts, D = silu(gate) * up: on kernels of the host, and which is chosen."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

import tilewright
from tilewright import weights
from tilewright.architectures.device import H200
from tilewright.context import Context, use
from tilewright.errors import ArgumentError, TilewrightError
from tilewright.families.mixed_grouped_gemm.family import FAMILY
from tilewright.families.mixed_grouped_gemm.problem import Problem
from tilewright.libraries.registry import Registry
from tilewright.weights import PackedWeight, QuantizedWeight, pack_weight

RECORDS = [*Registry().route("mixed_grouped_gemm", H200)]
LAYERS = {"mixtral-8x7b": (8, 28672, 4096), "gpt-oss-20b": (32, 5760, 2880), "qwen3-30b": (128, 1536, 2048)}
HALF = 40  # rows of gate, and of up
FACTORS = (0.5, 2.0, 0.25)  # global scales of three experts
ENDS = (2, 2, 7)
GROUPS = [0, 0, 2, 2, 2, 2, 2, -1]  # of eight rows


def int32(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int32)


def quantized(n: int, seed: int, format: str = "nvfp4") -> QuantizedWeight:
    """A random weight [n, 96] of NVFP4, or of MXFP4."""
    generator = torch.Generator().manual_seed(seed)
    codes = torch.randint(16, (n, 96), generator=generator, dtype=torch.uint8)
    group = 16 if format == "nvfp4" else 32
    scales = torch.randint(40, 56, (n, 96 // group), generator=generator, dtype=torch.uint8)
    if format == "mxfp4":
        return QuantizedWeight(codes, (scales + 75).view(torch.float8_e8m0fnu), group, "mxfp4")
    return QuantizedWeight(codes, scales.view(torch.float8_e4m3fn), group, "nvfp4")


def projections(expert: int) -> list[QuantizedWeight]:
    """Gate and up of an expert."""
    parts = (quantized(HALF, 2 * expert + part) for part in range(2))
    return [replace(weight, global_scale=FACTORS[expert]) for weight in parts]


def merged() -> PackedWeight:
    experts = [weights.concatenate(projections(expert)) for expert in range(len(FACTORS))]
    return pack_weight(weights.stack(experts), gated=True)


def activations(*rows: int) -> torch.Tensor:
    return torch.randn((*rows, 96), generator=torch.Generator().manual_seed(0)).bfloat16() / 4


def biases() -> torch.Tensor:
    """The biases of each expert: first those of gate, then those of up."""
    return torch.linspace(-1, 1, len(FACTORS) * 2 * HALF).view(len(FACTORS), -1).bfloat16()


def expected(row: torch.Tensor, expert: int, bias: torch.Tensor | None, alpha: float = 1.0) -> torch.Tensor:
    """silu(gate) * up of a row, each by its own weight and its half of the bias."""
    halves = [alpha * (row.double() @ weight.dequantize().t()) for weight in projections(expert)]
    if bias is not None:
        halves = [x + part.double() for x, part in zip(halves, bias[expert].split(HALF), strict=True)]
    return torch.nn.functional.silu(halves[0]) * halves[1]


def close(d: torch.Tensor, right: torch.Tensor) -> None:
    torch.testing.assert_close(d.double(), right, rtol=2.0**-7, atol=1e-3)


def test_each_row_has_gate_and_up_of_its_expert(experts_host: Context) -> None:
    a, bias = activations(8), biases()
    out = torch.full((8, HALF), float("nan"), dtype=torch.bfloat16)
    with use(experts_host):
        d = tilewright.mixed_grouped_gemm(a, merged(), group_ends=int32(*ENDS), activation="silu_mul")
        other = tilewright.mixed_grouped_gemm(
            a, merged(), group_of_row=int32(*GROUPS), alpha=-0.5, bias=bias, activation="silu_mul", out=out
        )
    assert d.shape == (8, HALF)
    assert other is out
    for row, expert in enumerate(GROUPS):
        if expert >= 0:
            close(d[row], expected(a[row], expert, None))
            close(out[row], expected(a[row], expert, bias, -0.5))


def test_each_expert_has_rows_of_its_own(experts_host: Context) -> None:
    a, counts = activations(3, 5), int32(5, 0, 3)
    with use(experts_host):
        d = tilewright.mixed_grouped_gemm(a, merged(), rows_valid=counts, activation="silu_mul")
    assert d.shape == (3, 5, HALF)
    for expert, count in enumerate(counts.tolist()):
        for row in range(count):
            close(d[expert, row], expected(a[expert, row], expert, None))


def test_a_result_without_a_product(experts_host: Context) -> None:
    """alpha of 0 leaves the bias, and zeros in padding; no rows leave nothing."""
    ends, bias = int32(*ENDS), biases()
    with use(experts_host):
        d = tilewright.mixed_grouped_gemm(
            activations(8), merged(), group_ends=ends, alpha=0.0, bias=bias, activation="silu_mul"
        )
        none = tilewright.mixed_grouped_gemm(
            activations(0), merged(), group_ends=0 * ends, activation="silu_mul"
        )
    for row, expert in enumerate(GROUPS):
        right = torch.zeros(HALF) if expert < 0 else expected(torch.zeros(96), expert, bias)
        close(d[row], right.double())
    assert none.shape == (0, HALF)


def test_it_is_compiled_as_one_graph(experts_host: Context) -> None:
    packed, a = merged(), activations(7)

    def call(x: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
        return tilewright.mixed_grouped_gemm(x, packed, group_ends=ends, activation="silu_mul") + 1

    compiled = torch.compile(call, backend="eager", fullgraph=True)
    with use(experts_host):
        for ends in (int32(2, 2, 7), int32(0, 5, 7)):
            assert torch.equal(compiled(a, ends), call(a, ends))


def plain_stack(n: int = 32, format: str = "nvfp4", *, gated: bool = False) -> PackedWeight:
    return pack_weight(weights.stack([quantized(n, 0, format)] * 3), gated=gated)


def call(weight: PackedWeight, a: torch.Tensor | None = None, **options: Any) -> Any:
    a = activations(8) if a is None else a
    return lambda: tilewright.mixed_grouped_gemm(a, weight, group_ends=int32(*ENDS), **options)


def lone(n: int, columns: int | None = None) -> Any:
    """A call of the op with tensors of n rows."""
    packed = plain_stack(n)
    out = None if columns is None else torch.empty(8, columns, dtype=torch.bfloat16)
    return lambda: tilewright.packed_grouped_gemm(
        activations(8), packed.weight, packed.scale, n=n, weight_format="nvfp4",
        group_ends=int32(*ENDS), activation="silu_mul", out=out,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (call(merged()), "activation: none, expected silu_mul: the weight was packed with gated=True"),
        (
            call(plain_stack(), activation="silu_mul"),
            "activation: silu_mul needs a gated weight\npack the merged weight of gate and up",
        ),
        (lone(24), "n: expected a multiple of 16 for silu_mul, got 24"),
        (lone(32, 32), "out: "),
        (call(plain_stack(), activation="silu"), "activation: it is 'silu'; expected one of none, silu_mul"),
        (
            call(
                plain_stack(format="mxfp4", gated=True),
                torch.zeros(8, 96, dtype=torch.float8_e4m3fn),
                activation="silu_mul",
            ),
            "weight: it is gated; FP8 activations expect a weight that is not gated",
        ),
    ],
)
def test_what_is_refused(experts_host: Context, call: Any, message: str) -> None:
    with use(experts_host), pytest.raises(ArgumentError) as caught:
        call()
    assert str(caught.value).startswith(message)


def test_no_kernel_of_a_format_is_said(experts_host: Context) -> None:
    packed = plain_stack(format="mxfp4", gated=True)
    with use(experts_host), pytest.raises(TilewrightError, match="it does not compute silu_mul"):
        call(packed, activation="silu_mul")()


@pytest.mark.parametrize("tokens", [1, 7, 32, 64, 500, 4096, 16384])
@pytest.mark.parametrize("weight_format", ["int4_g128", "int4_g32", "mxfp4", "nvfp4"])
@pytest.mark.parametrize("layer", LAYERS)
def test_layers_of_models_lose_little_speed_by_their_tiles(
    layer: str, weight_format: str, tokens: int
) -> None:
    """By the cost model: gated kernels have nearly all tiles of which one is chosen without a gate."""
    groups, n, k = LAYERS[layer]
    problem = Problem(2 * tokens, n, k, groups, weight_format=weight_format)
    plain, gated = (
        FAMILY.rank(RECORDS, replace(problem, activation=activation), H200)[0]
        for activation in ("none", "silu_mul")
    )
    assert gated.record.name.endswith("_silu_mul")
    assert gated.estimate.seconds <= 1.06 * plain.estimate.seconds


def test_kernels_compute_one_or_the_other() -> None:
    plain = Problem(64, 4096, 4096, 8)
    gated = replace(plain, activation="silu_mul")
    for record in RECORDS:
        if record.config["weight_format"] == "int4_g128" and record.config["a"] == "bf16":
            is_gated = record.name.endswith("_silu_mul")
            assert (FAMILY.misfit(record, plain) is None) == (not is_gated)
            assert (FAMILY.misfit(record, gated) is None) == is_gated
    reasons = {FAMILY.misfit(record, replace(gated, n=4104)) for record in FAMILY.fitting(RECORDS, gated)}
    assert reasons == {"gate and up have rows in units of 8, n in units of 16, not 4104"}


def test_batch_invariant_mode_has_kernels_of_one_order_of_sums() -> None:
    for m in (1, 33, 700):
        problem = Problem(m, 4096, 4096, 8, activation="silu_mul")
        fitting = FAMILY.fitting(RECORDS, problem)
        first = FAMILY.weigh(fitting, problem, H200, batch_invariant=True)[0]
        assert first.record.config["mainloop"] == "wgmma"
        assert first.record.name.endswith("_silu_mul")
