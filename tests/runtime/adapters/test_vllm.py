"""vLLM chooses our kernels and calls them; as if on an H200, with kernels that run on the host.

vLLM is imported as it is released; without a GPU its own kernels are not loaded, and none of them runs here.
"""

from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
import torch

pytest.importorskip("vllm", reason="needs vLLM")

from vllm.config import DeviceConfig, VllmConfig, set_current_vllm_config
from vllm.model_executor.kernels import linear
from vllm.model_executor.layers.quantization.utils.quant_utils import (
    GroupShape,
    QuantKey,
    ScaleDesc,
)
from vllm.platforms import PlatformEnum, current_platform

import tilewright
from tilewright.adapters import vllm as adapter
from tilewright.context import Context

ROOT = Path(__file__).parents[3]
FP8, F32, BF16 = torch.float8_e4m3fn, torch.float32, torch.bfloat16
N, K = 256, 384


def key(rows: int, columns: int, *, static: bool) -> QuantKey:
    return QuantKey(FP8, ScaleDesc(F32, static, GroupShape(rows, columns)), symmetric=True)


def config(activations: QuantKey, weights: QuantKey, **fields: Any) -> Any:
    defaults = {"weight_shape": (N, K), "input_dtype": BF16, "out_dtype": BF16}
    return linear.FP8ScaledMMLinearLayerConfig(
        activation_quant_key=activations, weight_quant_key=weights, **(defaults | fields)
    )


def on_the_cpu() -> VllmConfig:
    return VllmConfig(device_config=DeviceConfig(device="cpu"))


BLOCK = config(key(1, 128, static=False), key(128, 128, static=True))
TENSOR = config(key(-1, -1, static=True), key(-1, -1, static=True))


@pytest.fixture
def on_hopper(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(current_platform), "get_device_capability", classmethod(lambda cls, *_: (9, 0)))


@pytest.fixture
def orders(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[type]]:
    """vLLM's kernels in its order, which a test may change."""
    lists = {"fp8_block": linear._POSSIBLE_FP8_BLOCK_KERNELS, "fp8": linear._POSSIBLE_FP8_KERNELS}
    for kernels in lists.values():
        monkeypatch.setitem(kernels, PlatformEnum.CUDA, list(kernels[PlatformEnum.CUDA]))
    return {kind: kernels[PlatformEnum.CUDA] for kind, kernels in lists.items()}


def test_register_appends_once_and_puts_first_what_is_asked(
    orders: dict[str, list[type]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TILEWRIGHT_VLLM", raising=False)
    theirs = {kind: list(kernels) for kind, kernels in orders.items()}
    adapter.register()
    adapter.register()
    assert orders == {kind: [*theirs[kind], adapter.KERNELS[kind]] for kind in theirs}
    monkeypatch.setenv("TILEWRIGHT_VLLM", "first")
    adapter.register()
    assert orders == {kind: [adapter.KERNELS[kind], *theirs[kind]] for kind in theirs}


def test_the_entry_point_is_it() -> None:
    tomllib = pytest.importorskip("tomllib")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (value,) = project["entry-points"]["vllm.general_plugins"].values()
    assert EntryPoint("tilewright", value, "vllm.general_plugins").load() is adapter.register


@pytest.mark.parametrize(
    ("kind", "layer", "expected"),
    [
        ("fp8_block", BLOCK, None),
        ("fp8", TENSOR, None),
        ("fp8_block", config(key(1, 64, static=False), key(128, 128, static=True)), "scales of 1x128"),
        ("fp8_block", config(key(1, 128, static=False), key(1, 128, static=True)), "scales of 128x128"),
        ("fp8_block", config(BLOCK.activation_quant_key, BLOCK.weight_quant_key, out_dtype=F32), "bfloat16"),
        (
            "fp8_block",
            config(BLOCK.activation_quant_key, BLOCK.weight_quant_key, weight_shape=(250, K)),
            "250",
        ),
        ("fp8", config(key(1, -1, static=False), key(-1, -1, static=True)), "activations with one scale"),
        ("fp8", config(key(-1, -1, static=True), key(-1, 1, static=True)), "weights with one scale"),
        (
            "fp8",
            config(TENSOR.activation_quant_key, TENSOR.weight_quant_key, weight_shape=(N, 3420)),
            "k in multiples of 16, not 3420",
        ),
    ],
)
def test_vllm_takes_it_for_what_it_computes(kind: str, layer: Any, expected: str | None) -> None:
    kernel = adapter.KERNELS[kind]
    with set_current_vllm_config(on_the_cpu()):
        possible, reason = linear.is_supported_and_can_implement_kernel(kernel, layer, 90)
        assert possible == (expected is None)
        assert expected is None or expected in reason
        assert not linear.is_supported_and_can_implement_kernel(kernel, layer, 100)[0]


def test_a_layer_with_scales_of_blocks(grouped: Context, on_hopper: None) -> None:
    torch.manual_seed(1)
    x, weight, scale = torch.randn(24, K).bfloat16(), torch.randn(N, K).to(FP8), torch.rand(2, 3) + 0.5
    with set_current_vllm_config(on_the_cpu()):
        kernel = adapter.TilewrightFp8BlockScaledMMKernel(BLOCK)
        layer = torch.nn.Module()
        layer.weight = torch.nn.Parameter(weight, requires_grad=False)
        layer.weight_scale_inv = torch.nn.Parameter(scale, requires_grad=False)
        kernel.process_weights_after_loading(layer)
        quantised, scales = kernel.quant_fp8(x, None, None)
        actual = kernel.apply_weights(layer, x)
    expected = tilewright.scaled_gemm(quantised, weight.t(), scales, scale.t())
    assert torch.equal(actual, expected)
    wide = scale.repeat_interleave(128, 0).repeat_interleave(128, 1)
    reference = x.float() @ (weight.float() * wide).t()
    assert (actual.float() - reference).norm() < 0.05 * reference.norm()


def test_a_layer_with_one_scale(host: Context, on_hopper: None) -> None:
    torch.manual_seed(2)
    x, weight = torch.randn(2, 12, K).bfloat16(), torch.randn(N, K).to(FP8)
    bias = torch.randn(N).bfloat16()
    with set_current_vllm_config(on_the_cpu()):
        kernel = adapter.TilewrightFP8ScaledMMLinearKernel(
            TENSOR, ["weight", "weight_scale", "input_scale", "input_scale_ub"]
        )
        layer = torch.nn.Module()
        layer.weight = torch.nn.Parameter(weight.t(), requires_grad=False)
        layer.weight_scale = torch.nn.Parameter(torch.tensor([0.25]), requires_grad=False)
        layer.input_scale = torch.nn.Parameter(torch.tensor([0.5]), requires_grad=False)
        actual = kernel.apply_weights(layer, x, bias)
    reference = x.float() @ (weight.float() * 0.25).t() + bias.float()
    assert actual.shape == (2, 12, N)
    assert (actual.float() - reference).norm() < 0.05 * reference.norm()
