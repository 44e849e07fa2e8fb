"""All products of a small model run from its bundle, with no compiler on the machine, and are right."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tilewright import bundle, context
from tilewright.architectures import device
from tilewright.context import Context
from tilewright.declarations import catalog
from tilewright.errors import BundleError
from tilewright.models import configuration, forward
from tilewright.tools.bundling import making, measuring, planning, proof
from tilewright.tools.bundling.closure import Setting

pytestmark = pytest.mark.gpu

TOKENS = 96
MODEL = {
    "model_type": "deepseek_v3",
    "hidden_size": 1024,
    "intermediate_size": 2048,
    "moe_intermediate_size": 512,
    "num_hidden_layers": 4,
    "first_k_dense_replace": 1,
    "num_attention_heads": 8,
    "num_key_value_heads": 8,
    "q_lora_rank": 256,
    "kv_lora_rank": 128,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "n_routed_experts": 8,
    "n_shared_experts": 1,
    "num_experts_per_tok": 2,
    "vocab_size": 4096,
    "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]},
}


def test_a_small_model_runs_from_its_bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps(MODEL))
    serving = forward.Serving(max_tokens=TOKENS, max_sequences=32, masked_rows=64)
    listing = forward.products(configuration.read(config), serving)
    registry = Context().registry
    gpu = device.read(torch.cuda.current_device())
    setting = Setting(registry.folders, gpu, batch_invariant=False)
    plan = planning.plan(listing, setting, jobs=1)
    assert not plan.left_out
    if lacking := [name for name in plan.kernels if not registry.is_built(registry.record(name))]:
        pytest.skip(f"not built: {', '.join(lacking)}")
    report = making.build_kernels(plan, registry, tmp_path / "bundle")
    report.raise_for_failures()
    making.write(plan, registry, tmp_path / "bundle", ["", ""])
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "empty"))
    monkeypatch.setenv("TILEWRIGHT_JIT", "0")
    monkeypatch.setenv("PATH", "")
    with context.use(Context(bundle=bundle.load(tmp_path / "bundle"))) as current:
        assert current.bundle is not None
        for entry in current.bundle.manifest.entries:
            product = proof.product_of(entry)
            values = entry.values
            for value in sorted({values[0], values[len(values) // 2], values[-1]}):
                _check(entry.family, product.problem(value), value)
        larger = replace(product.problem(values[-1]), **{product.extent: values[-1] + values.step})
        with pytest.raises(BundleError):
            _check(product.family, larger, values[-1])
    _measured(bundle.load(tmp_path / "bundle"))
    assert not (tmp_path / "empty").exists()


def _measured(made: bundle.Bundle) -> None:
    answer = measuring.as_json(made, list(measuring.runs(made)))
    count = sum(len(measuring.values_of(entry)) for entry in made.manifest.entries)
    assert len(answer["runs"]) == count
    assert all(run["measured_us"] > 0 for run in answer["runs"])
    assert len(measuring.markdown(answer).splitlines()) == count + 6


def _check(family: str, problem: object, seed: int) -> None:
    """Runs what the bundle has for a problem on random operands, and compares the result with the
    reference."""
    operands = catalog.family_module(family, "measuring").make(
        problem, torch.Generator("cuda").manual_seed(seed)
    )
    operands.poison()
    operands.call()
    operands.check()
