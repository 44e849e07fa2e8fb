"""examples/moe on a GPU: the layer beside its definition, and in a CUDA graph."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest
import torch

EXAMPLE = Path(__file__).resolve().parents[2] / "examples/moe/moe_layer.py"
NAMES: dict[str, Any] = runpy.run_path(str(EXAMPLE))


@pytest.fixture(autouse=True)
def hopper() -> None:
    if torch.cuda.get_device_capability() != (9, 0):
        pytest.skip("kernels of sm_90a")


@pytest.mark.parametrize("tokens", [1, 7, 64, 1000])
@pytest.mark.parametrize("model", NAMES["MODELS"])
def test_the_layer_computes_its_definition(model: str, tokens: int) -> None:
    error = NAMES["error"](NAMES["MODELS"][model], tokens, "cuda")
    assert 0 < error <= NAMES["MOST_ERROR"]


@pytest.mark.parametrize("model", NAMES["MODELS"])
def test_a_graph_of_the_layer_is_replayed_for_other_tokens(model: str) -> None:
    """The experts of each token are those of the replay, not of the capture."""
    kind = NAMES["MODELS"][model]
    generator = torch.Generator().manual_seed(0)
    layer = NAMES["Layer"](kind, kind.checkpoint(generator), "cuda")
    first, second = (
        torch.randn((33, NAMES["HIDDEN"]), generator=generator).bfloat16().cuda() for _ in range(2)
    )
    # Products alone are equal to the bit; torch adds up an unordered sum in FP32.
    expected = layer(second)
    x, stream = first.clone(), torch.cuda.Stream()
    with torch.cuda.stream(stream):
        layer(x)
    stream.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        out = layer(x)
    x.copy_(second)
    graph.replay()
    torch.cuda.synchronize()
    torch.testing.assert_close(out, expected, rtol=2.0**-6, atol=1e-2)
