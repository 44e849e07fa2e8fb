"""The quantising ops as torch sees them: schemas, fake kernels, torch.compile."""

from __future__ import annotations

import functools
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import tilewright
from tilewright import blockwise_scales
from tilewright.context import Context
from tilewright.errors import ArgumentError
from tilewright.families.quantize import op  # noqa: F401 (registers the ops)

pytestmark = pytest.mark.usefixtures("hopper")
KINDS = [
    ("nvfp4", "128x4"), ("nvfp4", "8x4"), ("mxfp4", "linear"), ("mxfp8", "128x4"), ("mxfp8_e5m2", "8x4"),
    ("fp8_1x128", "m_major"), ("fp8_1x128", "row_major"), ("fp8_1x128", "packed"),
    ("fp8_128x128", "row_major"), ("fp8_128x128", "packed"),
]  # fmt: skip


def calls(name: str, layout: str) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """What the ops of a format are called after `quantize_` and `dequantize_`, and their options."""
    if name.startswith("fp8"):
        block = [1, 128] if name == "fp8_1x128" else [128, 128]
        kind = "ue8m0" if layout == "packed" else "float32"
        options = {"block": block, "scale_type": kind, "scale_layout": layout}
        return "fp8_blockwise", options, {"block": block}
    back = {"layout": layout}
    if name.startswith("mxfp8"):
        dtype = torch.float8_e5m2 if name.endswith("e5m2") else torch.float8_e4m3fn
        return "mxfp8", {"dtype": dtype, **back}, back
    return name, dict(back), back


def torch_op(name: str) -> Any:
    return getattr(torch.ops.tilewright, name).default


@pytest.mark.parametrize(("name", "layout"), KINDS)
def test_fake_results_lie_as_real_ones(name: str, layout: str) -> None:
    kind, options, _ = calls(name, layout)
    for shape in ((130, 256), (1, 16), (3, 37, 144)):
        x = torch.randn(shape).bfloat16()
        real = torch_op(f"quantize_{kind}")(x, **options)
        with FakeTensorMode() as mode:
            fake = torch_op(f"quantize_{kind}")(mode.from_tensor(x), **options)
        for tensor, expected in zip(fake, real, strict=True):
            assert (tensor.shape, tensor.dtype, tensor.stride()) == (
                expected.shape,
                expected.dtype,
                expected.stride(),
            )


@pytest.mark.parametrize("activation", ["none", "silu_mul"])
@pytest.mark.parametrize(("name", "layout"), KINDS)
def test_a_result_is_made_beside_one_that_is_given(name: str, layout: str, activation: str) -> None:
    kind, options, _ = calls(name, layout)
    quantise = functools.partial(
        getattr(tilewright, f"quantize_{kind}"), torch.empty(130, 256, dtype=torch.bfloat16, device="meta")
    )
    results = dict(zip(("out", "out_scales"), quantise(activation=activation, **options), strict=True))
    for given, tensor in results.items():
        both = quantise(activation=activation, **options, **{given: tensor})
        for made, expected in zip(both, results.values(), strict=True):
            assert (made.shape, made.dtype, made.stride()) == (
                expected.shape,
                expected.dtype,
                expected.stride(),
            )


def test_options_that_no_public_call_has() -> None:
    """`torch.ops` passes what it is given."""
    x = torch.randn(4, 64).bfloat16()
    for name, options, said in (
        ("quantize_nvfp4", {"activation": "gelu"}, "activation: it is 'gelu'; expected none or silu_mul"),
        ("quantize_mxfp4", {"layout": "zz"}, "layout: it is 'zz'; expected one of 128x4"),
        ("quantize_fp8_blockwise", {"block": [2, 3]}, r"block: expected \(1, 128\), \(128, 1\) or"),
        (
            "quantize_nvfp4",
            {"activation": "silu_mul", "rms_weight": x[0]},
            "rms_weight: not supported beside silu_mul",
        ),
    ):
        with pytest.raises(ArgumentError, match=f"^{said}"):
            torch_op(name)(x, **options)


def nvfp4(x: Any, scale: Any) -> Any:
    data, scales = tilewright.quantize_nvfp4(x * 2, scale)
    return data + 0, scales.view(torch.uint8) + 0, tilewright.dequantize_nvfp4(data, scales, scale) * 0.5


def numbers(x: Any, scale: Any) -> Any:
    data, scales = tilewright.quantize_nvfp4(x, 2.5, layout="8x4", shuffle=False, fast=True)
    valid = torch.full((1,), 7, dtype=torch.int32)
    _, masked = tilewright.quantize_mxfp8(x, layout="linear", rows_valid=valid)
    return data + 0, scales.view(torch.uint8) + 0, masked.view(torch.uint8) + 0


def blockwise(x: Any, scale: Any) -> Any:
    data, scales = tilewright.quantize_fp8_blockwise(x * 2)
    return data.view(torch.uint8) + 0, scales * 2, tilewright.dequantize_fp8_blockwise(data, scales)


def into(x: Any, scale: Any) -> Any:
    out = torch.zeros((x.shape[0], x.shape[1] // 2), dtype=torch.uint8)
    own = blockwise_scales.allocate((x.shape[0], 4), dtype=torch.float32, device="cpu")
    data, scales = tilewright.quantize_nvfp4(x, scale, out=out)
    fp8, _ = tilewright.quantize_fp8_blockwise(x, out_scales=own)
    # Scales that have padding in memory, made beside data that are given.
    _, columns = tilewright.quantize_fp8_blockwise(x, out=torch.zeros(x.shape, dtype=torch.float8_e4m3fn))
    result = tilewright.dequantize_nvfp4(data, scales, scale, out=torch.zeros_like(x))
    made = (out + 1, scales.view(torch.uint8) + 0, fp8.view(torch.uint8) + 0)
    return *made, own * 2, columns * 2, result + 0


@pytest.mark.parametrize("function", [nvfp4, numbers, blockwise, into])
def test_torch_compile(function: Any) -> None:
    """One graph, also where m varies; the same bits."""
    compiled = torch.compile(function, fullgraph=True, backend="aot_eager")
    scale = torch.tensor([12.0])
    for m in (130, 64, 33):
        x = torch.randn(m, 512).bfloat16()
        for actual, expected in zip(compiled(x, scale), function(x, scale), strict=True):
            assert actual.dtype == expected.dtype
            torch.testing.assert_close(actual, expected, rtol=0, atol=0, equal_nan=True)


def test_a_varying_m_is_compiled_once_more_at_most() -> None:
    torch._dynamo.reset()
    counter = torch._dynamo.testing.CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(nvfp4, fullgraph=True, backend=counter)
    for m in (130, 64, 33, 256, 8):
        compiled(torch.randn(m, 512).bfloat16(), torch.tensor([12.0]))
    assert counter.frame_count <= 2
    torch._dynamo.reset()


def test_compiled_results_of_other_shapes_are_refused_as_in_eager_calls(hopper: Context) -> None:
    x = torch.ones(16, 64, dtype=torch.bfloat16)

    def quantize(x: torch.Tensor, out: torch.Tensor) -> Any:
        return tilewright.quantize_nvfp4(x, out=out)

    compiled = torch.compile(quantize, backend="aot_eager", fullgraph=True)
    room = torch.zeros(16, 32, dtype=torch.uint8)
    assert torch.equal(compiled(x, room)[0], tilewright.quantize_nvfp4(x)[0])
    for other in (torch.zeros(3, 16, 32, dtype=torch.uint8), torch.zeros(16, 8)):
        with pytest.raises(ArgumentError, match="out: its"):
            quantize(x, other)
        with pytest.raises(Exception, match="out: its"):  # of torch, while it traces
            compiled(x, other)


def test_a_number_as_global_scale_compiles_once_for_all(hopper: Context) -> None:
    """It is a tensor of the graph: a constant that the op kept could be of a graph's memory."""
    graphs = []

    def backend(graph: Any, _: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    x = torch.randn(16, 64).bfloat16()
    compiled = torch.compile(tilewright.quantize_nvfp4, backend=backend, fullgraph=True)
    for scale in (1.5, 2.5, 3.5, 4.5):
        for tensor, expected in zip(compiled(x, scale), tilewright.quantize_nvfp4(x, scale), strict=True):
            assert torch.equal(tensor.view(torch.uint8), expected.view(torch.uint8))
    assert len(graphs) <= 2
