"""The quantising ops on a GPU in streams, CUDA graphs and compiled functions."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import quantize_comparison as comparison
import quantize_inputs as inputs
import quantize_reference as of
import torch

import tilewright
from tilewright import reference

pytestmark = pytest.mark.marks_kernels


@pytest.mark.parametrize("x", ["bf16", "e4m3"])
def test_no_synchronisation(x: str) -> None:
    """Numbers and tensors of the device alike, after the first call."""
    value = inputs.to_type(torch.randn(256, 512, device="cuda"), x)
    scale = torch.ones(1, device="cuda")
    for given_scale in (2.5, scale):
        tilewright.quantize_nvfp4(value, given_scale)
    torch.cuda.set_sync_debug_mode("error")
    try:
        for given_scale in (2.5, 3.5, scale):
            data, scales = tilewright.quantize_nvfp4(value, given_scale)
            tilewright.dequantize_nvfp4(data, scales, given_scale)
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("name", [*of.BYTE_FORMATS, "fp8_1x128", "fp8_128x128"])
def test_in_a_graph(name: str) -> None:
    """A replay reads what x, the global scale and the rows that count are then, and writes where it did."""
    x = inputs.to_type(torch.zeros(3, 140, 256, device="cuda"), "bf16")
    scale = torch.ones(1, device="cuda") if name == "nvfp4" else None
    valid = torch.full((3,), 140, dtype=torch.int32, device="cuda")
    case = of.Case(name, x, of.layouts_of(name)[0], scale, valid)
    case.quantize()
    if name == "nvfp4":
        tilewright.quantize_nvfp4(x, 2.0)  # what a first call loads, no capture may
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        data, scales = case.quantize()
        constant = tilewright.quantize_nvfp4(x, 77.5)[0] if name == "nvfp4" else None
    for seed in range(3):
        x.copy_(inputs.randoms(tuple(x.shape), "bf16", seed))
        valid.copy_(torch.tensor([seed, 140, 77], dtype=torch.int32))
        if scale is not None:
            scale.fill_(10.0 + seed)
        of.as_bytes(data).fill_(of.POISON)
        graph.replay()
        expected, wanted_scales = case.wanted()
        rows = reference.valid_rows(valid, 140)
        comparison.compare(of.as_bytes(data)[rows], of.as_bytes(expected)[rows], f"{case}: data")
        comparison.compare(of.as_bytes(scales), of.as_bytes(wanted_scales), f"{case}: scales")
        assert bool((of.as_bytes(data)[~rows] == of.POISON).all())
        if constant is not None:
            comparison.compare(
                constant, reference.quantize(x, "nvfp4", 77.5)[0], "a number for a global scale"
            )


def test_on_several_streams() -> None:
    streams = [torch.cuda.Stream() for _ in range(4)]
    matrices = [inputs.randoms((1024, 2048), "bf16", seed) for seed in range(4)]
    expected = [reference.quantize(x, "nvfp4", 20.0) for x in matrices]
    torch.cuda.synchronize()
    for _ in range(5):
        actual = []
        for stream, x in zip(streams, matrices, strict=True):
            with torch.cuda.stream(stream):
                actual.append(tilewright.quantize_nvfp4(x, 20.0))
        torch.cuda.synchronize()
        for (data, scales), (wanted_data, wanted_scales) in zip(actual, expected, strict=True):
            comparison.compare(data, wanted_data, "data")
            comparison.compare(of.as_bytes(scales), of.as_bytes(wanted_scales), "scales")


def test_each_call_reads_what_the_one_before_wrote() -> None:
    """Quantise, read back and quantise again, into poisoned memory, each time other numbers."""
    torch.manual_seed(0)
    for _ in range(20):
        x = torch.randn(2048, 4096, device="cuda").bfloat16()
        first, second = (of.Run(of.Case("mxfp8", x, "128x4")) for _ in range(2))
        expected = reference.dequantize(first.wanted, first.wanted_scales, "mxfp8").to(torch.bfloat16)
        back = torch.full_like(expected, math.nan)
        again = of.Run(of.Case("mxfp8", expected, "128x4"))
        again.case = replace(again.case, x=back)
        torch.cuda.synchronize()
        first.run()
        tilewright.dequantize_mxfp8(first.data, first.scales, out=back)
        again.run()
        second.run()
        first.check_bits("first")
        comparison.compare(back.view(torch.int16), expected.view(torch.int16), "read back")
        again.check_bits("again")
        second.check_bits("once more")


def _functions() -> dict[str, Any]:
    def nvfp4(x: torch.Tensor, scale: torch.Tensor) -> Any:
        data, scales = tilewright.quantize_nvfp4(x * 2, scale)
        return data + 0, scales.view(torch.uint8) + 0, tilewright.dequantize_nvfp4(data, scales, scale) * 0.5

    def mxfp8(x: torch.Tensor, scale: torch.Tensor) -> Any:
        data, scales = tilewright.quantize_mxfp8(x * 2, layout="linear")
        return (
            data.view(torch.uint8) + 0,
            scales.view(torch.uint8) + 0,
            tilewright.dequantize_mxfp8(data, scales, layout="linear"),
        )

    def blockwise(x: torch.Tensor, scale: torch.Tensor) -> Any:
        data, scales = tilewright.quantize_fp8_blockwise(x * 2)
        return data.view(torch.uint8) + 0, scales * 2, tilewright.dequantize_fp8_blockwise(data, scales)

    return {"nvfp4": nvfp4, "mxfp8": mxfp8, "blockwise": blockwise}


@pytest.mark.parametrize("name", list(_functions()))
def test_torch_compile(name: str) -> None:
    """One graph, the same bits."""
    function = _functions()[name]
    compiled = torch.compile(function, fullgraph=True)
    scale = torch.tensor([12.0], device="cuda")
    for m in (130, 64):
        x = torch.randn(m, 512, device="cuda").bfloat16()
        for actual, expected in zip(compiled(x, scale), function(x, scale), strict=True):
            assert actual.dtype == expected.dtype
            torch.testing.assert_close(actual, expected, rtol=0, atol=0)
