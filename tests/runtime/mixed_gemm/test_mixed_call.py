"""`mixed_gemm`: from the layers of real libraries to products, on kernels of the host."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
import torch
from golden_vectors import golden
from packed_weights_page import GPU, WEIGHTS, names, products

import tilewright
from tilewright import weights
from tilewright.context import Context, use
from tilewright.errors import ArgumentError, ArgumentTypeError
from tilewright.weights import PackedWeight, QuantizedWeight, pack_weight, stack


def layer(name: str) -> QuantizedWeight:
    """A layer as the reader reads it."""
    case = golden()[name]
    weight: QuantizedWeight = getattr(weights, case.reader)(**case.tensors, **case.options)
    return weight


# Those of formats that the host has kernels for.
LAYERS = {
    "pack_asym": torch.float16,
    "mxfp4_deepseek": torch.bfloat16,
    "mxfp4_compressed_tensors": torch.bfloat16,
    "nvfp4_modelopt": torch.bfloat16,
    "nvfp4_compressed_tensors": torch.bfloat16,
    "fp8_channel": torch.bfloat16,
    "pack_int8": torch.float16,
}


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_of_a_library_multiplies_as_it_decodes(mixed_host: Context, name: str) -> None:
    """The product with the unit matrix is the weight, rounded to the type of the activations."""
    packed = pack_weight(layer(name))
    unit = torch.eye(packed.k, dtype=LAYERS[name])
    with use(mixed_host):
        d = tilewright.mixed_gemm(unit, packed)
    decoded = golden()[name].decoded.t()
    assert d.dtype == LAYERS[name]
    assert torch.equal(d, decoded.to(d.dtype))


def test_factors_bias_and_activation(mixed_host: Context) -> None:
    weight = replace(layer("nvfp4_modelopt"), global_scale=0.5)
    packed = pack_weight(weight)
    a = torch.randn((5, 64), generator=torch.Generator().manual_seed(0)).bfloat16()
    bias = torch.arange(16).bfloat16()
    out = torch.empty((5, 16), dtype=torch.bfloat16)
    with use(mixed_host):
        d = tilewright.mixed_gemm(a, packed, alpha=-0.25, bias=bias, activation="relu", out=out)
    assert d is out
    expected = torch.relu(-0.25 * (a.double() @ weight.dequantize().t()) + bias.double())
    assert bool((expected == 0).any())
    torch.testing.assert_close(d.double(), expected, rtol=2.0**-8, atol=1e-3)


def test_it_is_compiled_as_one_graph(mixed_host: Context) -> None:
    """By torch.compile, with the packed weight as a constant of the function."""
    packed = pack_weight(layer("nvfp4_modelopt"))
    a = torch.randn((5, 64), generator=torch.Generator().manual_seed(0)).bfloat16()
    compiled = torch.compile(lambda x: tilewright.mixed_gemm(x, packed) + 1, backend="eager", fullgraph=True)
    with use(mixed_host):
        assert torch.equal(compiled(a), tilewright.mixed_gemm(a, packed) + 1)


def test_one_scale_a_row(mixed_host: Context) -> None:
    codes = torch.randint(0, 16, (8, 160), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    weight = QuantizedWeight(codes, torch.full((8, 1), 0.5, dtype=torch.bfloat16), -1, "int4")
    with use(mixed_host):
        d = tilewright.mixed_gemm(torch.eye(160, dtype=torch.bfloat16), pack_weight(weight))
    assert torch.equal(d.double(), weight.dequantize().t())


@pytest.mark.parametrize(("code", "name"), list(zip(GPU, WEIGHTS, strict=True)))
def test_calls_of_the_page(packed_hosts: Context, code: str, name: str) -> None:
    """docs/packed_weights.md, with its tensors on the CPU."""
    namespace = names(upto=code)
    with use(packed_hosts):
        exec(code.replace("cuda", "cpu"), namespace)
    d = namespace["d"]
    (shape,) = re.findall(r"# (\[\d+, \d+\])", code)
    assert str(list(d.shape)) == shape
    expected, bound = products(namespace, name)
    assert bool(((d.double() - expected).abs() <= bound).all())


def expert() -> PackedWeight:
    return pack_weight(stack([layer("mxfp4_deepseek")] * 3))


@pytest.mark.parametrize(
    ("a", "weight", "message"),
    [
        (torch.ones(4, 64), lambda: torch.ones(8, 64), "weight: expected a PackedWeight, got Tensor"),
        (torch.ones(4, 64), expert, "weight: a stack of 3 experts, expected one weight\nmixed_grouped_gemm"),
        (
            torch.ones(4, 64).bfloat16(),
            lambda: pack_weight(layer("pack_asym")),
            "a: torch.bfloat16, expected torch.float16: the type that the weight was packed for\n"
            "pack_weight(weight, torch.bfloat16) packs the weight for such activations",
        ),
        (
            torch.ones(4, 64),
            lambda: pack_weight(layer("pack_asym")),
            "a: torch.float32, expected torch.float16: the type that the weight was packed for\n"
            "float8_e4m3fn goes with",
        ),
        (
            torch.ones(4, 32).bfloat16(),
            lambda: expert().expert(1),
            "a: 32 columns, expected 64, the weight's k",
        ),
    ],
)
def test_what_it_refuses(a: torch.Tensor, weight: Any, message: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        tilewright.mixed_gemm(a, weight())
    assert str(caught.value).startswith(message)
    assert isinstance(caught.value, ArgumentTypeError) == (
        "expected a" in message or "torch.float16" in message
    )
