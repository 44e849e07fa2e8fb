"""examples/moe: the layer of experts on kernels of the host, beside its definition."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from tilewright.context import Context, use

EXAMPLE = Path(__file__).resolve().parents[3] / "examples/moe/moe_layer.py"
NAMES: dict[str, Any] = runpy.run_path(str(EXAMPLE))


@pytest.mark.parametrize("tokens", [1, 40])
@pytest.mark.parametrize("model", NAMES["MODELS"])
def test_the_layer_computes_its_definition(experts_host: Context, model: str, tokens: int) -> None:
    with use(experts_host):
        error = NAMES["error"](NAMES["MODELS"][model], tokens, "cpu")
    assert 0 < error <= NAMES["MOST_ERROR"]


def test_a_layer_of_other_weights_is_far_off(experts_host: Context) -> None:
    """The bound of the error tells one expert's weights from another's."""
    model = NAMES["MODELS"]["deepseek"]
    checkpoint = model.checkpoint(torch.Generator().manual_seed(0))
    x = torch.randn((20, NAMES["HIDDEN"]), generator=torch.Generator().manual_seed(1)).bfloat16()
    expected = NAMES["definition"](model, checkpoint, x)
    for part in ("weight", "weight_scale"):
        first, second = (f"experts.{expert}.down_proj.{part}" for expert in range(2))
        checkpoint[first], checkpoint[second] = checkpoint[second], checkpoint[first]
    with use(experts_host):
        actual = NAMES["Layer"](model, checkpoint, "cpu")(x).double()
    assert float((actual - expected).norm() / expected.norm()) > 10 * NAMES["MOST_ERROR"]


def test_without_a_gpu_the_program_says_what_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(sys, "argv", [str(EXAMPLE)])
    with pytest.raises(SystemExit, match="expected a Hopper GPU, and torch finds none"):
        NAMES["main"]()
