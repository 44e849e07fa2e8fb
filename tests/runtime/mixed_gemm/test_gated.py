"""Gated products of packed weights, D = silu(gate) * up: on kernels of the host, and which is chosen."""

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
from tilewright.families.mixed_gemm.family import FAMILY
from tilewright.families.mixed_gemm.problem import Problem
from tilewright.libraries.registry import Registry
from tilewright.weights import PackedWeight, QuantizedWeight, pack_weight

RECORDS = [*Registry().route("mixed_gemm", H200)]
LAYERS = {"llama-3.1-8b": (28672, 4096), "qwen2.5-7b": (37888, 3584), "llama-3.1-70b / 4": (14336, 8192)}
HALF = 40  # rows of gate, and of up


def quantized(n: int, seed: int = 0, group: int = 16) -> QuantizedWeight:
    """A random weight [n, 96] of NVFP4, or with groups of 32 of MXFP4."""
    generator = torch.Generator().manual_seed(seed)
    codes = torch.randint(16, (n, 96), generator=generator, dtype=torch.uint8)
    scales = torch.randint(40, 56, (n, 96 // group), generator=generator, dtype=torch.uint8)
    if group == 32:
        return QuantizedWeight(codes, (scales + 75).view(torch.float8_e8m0fnu), group, "mxfp4")
    return QuantizedWeight(codes, scales.view(torch.float8_e4m3fn), group, "nvfp4", global_scale=0.25)


def projections() -> list[QuantizedWeight]:
    return [quantized(HALF, seed) for seed in (1, 2)]


def merged() -> PackedWeight:
    return pack_weight(weights.concatenate(projections()), gated=True)


def activations(m: int = 5) -> torch.Tensor:
    return torch.randn((m, 96), generator=torch.Generator().manual_seed(0)).bfloat16() / 4


def expected(a: torch.Tensor, bias: torch.Tensor | None = None, alpha: float = 1.0) -> torch.Tensor:
    """silu(gate) * up, each by its own weight and its half of the bias."""
    halves = [alpha * (a.double() @ weight.dequantize().t()) for weight in projections()]
    if bias is not None:
        halves = [x + part.double() for x, part in zip(halves, bias.split(HALF), strict=True)]
    return torch.nn.functional.silu(halves[0]) * halves[1]


def close(d: torch.Tensor, right: torch.Tensor) -> None:
    torch.testing.assert_close(d.double(), right, rtol=2.0**-7, atol=1e-3)


def test_gate_and_up_of_one_weight(mixed_host: Context) -> None:
    a, bias = activations(), torch.linspace(-1, 1, 2 * HALF).bfloat16()
    out = torch.full((5, HALF), float("nan"), dtype=torch.bfloat16)
    with use(mixed_host):
        d = tilewright.mixed_gemm(a, merged(), activation="silu_mul")
        with_bias = tilewright.mixed_gemm(a, merged(), alpha=-0.5, bias=bias, activation="silu_mul", out=out)
    assert d.shape == (5, HALF)
    close(d, expected(a))
    assert with_bias is out
    close(out, expected(a, bias, -0.5))


def test_a_result_without_a_product(mixed_host: Context) -> None:
    """alpha of 0 leaves the bias; no rows leave nothing."""
    bias = torch.linspace(-4, 4, 2 * HALF).bfloat16()
    with use(mixed_host):
        d = tilewright.mixed_gemm(activations(), merged(), alpha=0.0, bias=bias, activation="silu_mul")
        none = tilewright.mixed_gemm(activations(0), merged(), activation="silu_mul")
    close(d, expected(torch.zeros(5, 96), bias))
    assert none.shape == (0, HALF)


def test_it_is_compiled_as_one_graph(mixed_host: Context) -> None:
    packed, a = merged(), activations()
    compiled = torch.compile(
        lambda x: tilewright.mixed_gemm(x, packed, activation="silu_mul") + 1, backend="eager", fullgraph=True
    )
    with use(mixed_host):
        assert torch.equal(compiled(a), tilewright.mixed_gemm(a, packed, activation="silu_mul") + 1)


def call(weight: PackedWeight, **options: Any) -> Any:
    return lambda: tilewright.mixed_gemm(activations(), weight, **options)


def lone(n: int, activation: str, columns: int | None = None) -> Any:
    """A call of the op with tensors of n rows."""
    packed = pack_weight(quantized(n))
    out = None if columns is None else torch.empty(5, columns, dtype=torch.bfloat16)
    return lambda: tilewright.packed_gemm(
        activations(), packed.weight, packed.scale, n=n, weight_format="nvfp4", activation=activation, out=out
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (call(merged()), "activation: none, expected silu_mul: the weight was packed with gated=True"),
        (call(merged(), activation="silu"), "activation: silu, expected silu_mul"),
        (
            call(pack_weight(projections()[0]), activation="silu_mul"),
            "activation: silu_mul needs a gated weight\npack the merged weight of gate and up",
        ),
        (lone(24, "silu_mul"), "n: expected a multiple of 16 for silu_mul, got 24"),
        (lone(32, "silu_mul", 32), "out: "),
        (
            lambda: tilewright.mixed_gemm(
                torch.zeros(5, 96, dtype=torch.float8_e4m3fn),
                pack_weight(quantized(32, group=32), gated=True),
                activation="silu_mul",
            ),
            "weight: it is gated; FP8 activations expect a weight that is not gated",
        ),
    ],
)
def test_what_is_refused(mixed_host: Context, call: Any, message: str) -> None:
    with use(mixed_host), pytest.raises(ArgumentError) as caught:
        call()
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("m", [1, 7, 16, 33, 64, 100, 128, 2048])
@pytest.mark.parametrize("weight_format", ["int4_g128", "mxfp4", "nvfp4"])
@pytest.mark.parametrize("layer", LAYERS)
def test_layers_of_models_lose_no_speed_by_their_tiles(layer: str, weight_format: str, m: int) -> None:
    """By the cost model: gated kernels have the tiles of which one is chosen where there is no gate."""
    problem = Problem(m, *LAYERS[layer], weight_format=weight_format)
    plain, gated = (
        FAMILY.rank(RECORDS, replace(problem, activation=activation), H200)[0]
        for activation in ("none", "silu_mul")
    )
    assert gated.record.name.endswith("_silu_mul")
    assert gated.estimate.seconds <= 1.01 * plain.estimate.seconds


def test_batch_invariant_mode_has_kernels_of_one_order_of_sums() -> None:
    for m in (1, 33, 700):
        problem = Problem(m, 28672, 4096, activation="silu_mul")
        fitting = FAMILY.fitting(RECORDS, problem)
        first = FAMILY.weigh(fitting, problem, H200, batch_invariant=True)[0]
        assert first.record.config["mainloop"] == "wgmma"
        assert first.tactic.splits == 1
        assert first.record.name.endswith("_silu_mul")


def test_kernels_compute_one_or_the_other() -> None:
    gated, plain = Problem(8, 4096, 4096, activation="silu_mul"), Problem(8, 4096, 4096, activation="silu")
    for record in RECORDS:
        if record.config["weight_format"] == "int4_g128" and record.config["a"] == "bf16":
            is_gated = record.name.endswith("_silu_mul")
            assert (FAMILY.misfit(record, plain) is None) <= (not is_gated)
            assert (FAMILY.misfit(record, gated) is None) == is_gated
    odd = replace(gated, n=4104)
    reasons = {FAMILY.misfit(record, odd) for record in FAMILY.fitting(RECORDS, gated)}
    assert reasons == {"gate and up have rows in units of 8, n in units of 16, not 4104"}


def test_no_kernel_of_a_format_is_said(mixed_host: Context) -> None:
    packed = pack_weight(quantized(32, group=32), gated=True)
    with use(mixed_host), pytest.raises(TilewrightError, match="it does not compute silu_mul"):
        tilewright.mixed_gemm(activations(), packed, activation="silu_mul")
