"""Calls of the ops ask for the problems that a model's listing has, field for field."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NoReturn

import pytest
import torch

from tilewright import context
from tilewright.architectures.device import H200
from tilewright.bundle.closed import Bundle
from tilewright.context import Context
from tilewright.declarations import catalog
from tilewright.declarations.table import Table
from tilewright.errors import BundleError
from tilewright.libraries.registry import Registry
from tilewright.models import configuration, forward
from tilewright.tools.bundling import planning
from tilewright.tools.bundling.closure import Setting

MODEL = {
    "model_type": "deepseek_v3", "hidden_size": 512, "intermediate_size": 512, "moe_intermediate_size": 256,
    "num_hidden_layers": 2, "first_k_dense_replace": 1, "num_attention_heads": 2, "num_key_value_heads": 2,
    "q_lora_rank": 128, "kv_lora_rank": 128, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
    "v_head_dim": 128, "n_routed_experts": 4, "n_shared_experts": 1, "num_experts_per_tok": 2,
    "vocab_size": 512, "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]},
}  # fmt: skip


class ChosenError(Exception):
    """A call has chosen a kernel."""


@pytest.mark.parametrize("quantised", [True, False], ids=["fp8", "bf16"])
def test_calls_find_their_problems(quantised: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_TUNED", "")
    model = MODEL if quantised else {**MODEL, "quantization_config": None}
    (tmp_path / "config.json").write_text(json.dumps(model))
    serving = forward.Serving(max_tokens=32, max_sequences=8, masked_rows=16)
    listing = forward.products(configuration.read(tmp_path / "config.json"), serving)

    def build(table: Table, kernel: str) -> NoReturn:
        raise ChosenError(kernel)

    registry = Registry(libraries=lambda module: [], build=build)
    setting = Setting(registry.folders, H200, batch_invariant=False)
    values = {product.values[0] for product in listing.products}
    plan = planning.sketch(listing, setting, values)
    assert not plan.left_out
    bundle = Bundle(tmp_path, plan.manifest(registry), registry)
    monkeypatch.setenv("TILEWRIGHT_JIT", "1")
    called = set()
    with context.use(Context(described=H200, bundle=bundle)):
        for planned in plan.problems:
            product = planned.product
            problem = product.problem(product.values[0])
            measuring = catalog.family_module(product.family, "measuring")
            operands = measuring.make(problem, torch.Generator().manual_seed(0))
            with pytest.raises(ChosenError):
                operands.call()
            called.add(product.op.partition(".")[2])
    expected = {"gemm", "grouped_gemm_contiguous", "grouped_gemm_masked"}
    assert called == (
        expected | {"scaled_gemm", "quantize_fp8_blockwise", "scale_columns"} if quantised else expected
    )


def test_a_call_beside_the_list_is_refused(tmp_path: Path) -> None:
    """The test above cannot pass by a bundle that takes everything."""
    registry = Registry(libraries=lambda module: [])
    setting = Setting(registry.folders, H200, batch_invariant=False)
    (tmp_path / "config.json").write_text(json.dumps(MODEL))
    serving = forward.Serving(max_tokens=4, max_sequences=4, masked_rows=4)
    listing = forward.products(configuration.read(tmp_path / "config.json"), serving)
    bundle = Bundle(tmp_path, planning.sketch(listing, setting, {1}).manifest(registry), registry)
    tensor = torch.zeros(1, 640, dtype=torch.bfloat16)
    with context.use(Context(described=H200, bundle=bundle)):
        import tilewright  # noqa: PLC0415 (its ops need torch)

        with pytest.raises(BundleError, match="does not have gemm 1x512x640"):
            tilewright.gemm(tensor, torch.zeros(512, 640, dtype=torch.bfloat16).t())
