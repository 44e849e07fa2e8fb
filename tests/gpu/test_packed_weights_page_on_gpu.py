"""The calls of docs/packed_weights.md, and layers that libraries packed, on a GPU."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from golden_vectors import golden
from packed_weights_page import GPU, WEIGHTS, names, products

import tilewright
from tilewright import weights
from tilewright.weights import unpack_weight


@pytest.fixture(autouse=True)
def hopper() -> None:
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("kernels of sm_90a")


@pytest.mark.parametrize(("code", "name"), list(zip(GPU, WEIGHTS, strict=True)))
def test_a_call_of_the_page_multiplies_by_the_decoded_weight(code: str, name: str) -> None:
    namespace = names(upto=code)
    exec(code, namespace)
    expected, bound = products(namespace, name)
    assert bool(((namespace["d"].cpu().double() - expected).abs() <= bound).all())


# Layers of groups that can be packed, and the activations' type in which their library decodes them. Those of
# groups of 32 that a library decodes to FP16 are left out: no kernel computes them.
LAYERS = {
    "mxfp4_deepseek": torch.bfloat16,
    "mxfp4_compressed_tensors": torch.bfloat16,
    "nvfp4_modelopt": torch.bfloat16,
    "nvfp4_compressed_tensors": torch.bfloat16,
    "fp8_channel": torch.bfloat16,
    "pack_int8": torch.float16,
}


@pytest.mark.parametrize("name", LAYERS)
def test_a_layer_of_a_library_multiplies_as_it_decodes(name: str) -> None:
    """The product with the unit matrix is the weight, rounded to the type of the activations."""
    case = golden()[name]
    weight = getattr(weights, case.reader)(**case.tensors, **case.options)
    packed = tilewright.pack_weight(weight).to("cuda")
    d = tilewright.mixed_gemm(torch.eye(packed.k, dtype=LAYERS[name], device="cuda"), packed)
    assert torch.equal(d.cpu(), case.decoded.t().to(d.dtype))


def test_experts_of_different_global_scales_in_a_graph() -> None:
    """The call copies nothing to the GPU: a capture forbids it."""
    case = golden()["nvfp4_modelopt"]
    weight = getattr(weights, case.reader)(**case.tensors, **case.options)
    factors = (0.5, 2.0, -0.25)
    stack = weights.stack([replace(weight, global_scale=factor) for factor in factors])
    packed = tilewright.pack_weight(stack).to("cuda")
    x = torch.eye(packed.k, dtype=torch.bfloat16, device="cuda")
    ends = torch.tensor([1, 3, packed.k], dtype=torch.int32, device="cuda")
    tilewright.mixed_grouped_gemm(x, packed, group_ends=ends)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        d = tilewright.mixed_grouped_gemm(x, packed, group_ends=ends)
    for first in (1, 2):
        ends[0] = first
        graph.replay()
        factor = torch.tensor(
            [factors[0]] * first + [factors[1]] * (3 - first) + [factors[2]] * (packed.k - 3)
        )
        expected = factor[:, None].double() * (weight.dequantize() / weight.global_scale).t()
        assert torch.equal(d.cpu().double(), expected)


def test_a_packed_weight_is_the_same_on_the_gpu() -> None:
    """Packing and unpacking run where the weight lies."""
    namespace = names()
    weight = namespace["awq"]
    moved = replace(weight, codes=weight.codes.cuda(), scales=weight.scales.cuda(), zeros=weight.zeros.cuda())
    packed = tilewright.pack_weight(moved, torch.bfloat16)
    assert packed.weight.is_cuda
    assert torch.equal(packed.weight.cpu(), namespace["awq_packed"].weight)
    assert torch.equal(packed.scale.cpu(), namespace["awq_packed"].scale)
    back = unpack_weight(packed)
    assert torch.equal(back.codes, moved.codes)
    assert torch.equal(moved.dequantize().cpu(), weight.dequantize())
