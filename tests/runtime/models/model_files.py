"""Models as their config.json has them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tilewright.models import configuration, forward
from tilewright.models.forward import Serving
from tilewright.models.product import Listing

EXAMPLES = Path(__file__).parents[3] / "examples/models"
Write = Callable[..., Path]
LLAMA = {
    "model_type": "llama", "hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 4,
    "num_attention_heads": 8, "num_key_value_heads": 4, "vocab_size": 1000, "torch_dtype": "float16",
}  # fmt: skip
MIXTURE = {
    "model_type": "qwen3_moe", "hidden_size": 2048, "num_hidden_layers": 6, "num_attention_heads": 16,
    "num_key_value_heads": 2, "head_dim": 128, "vocab_size": 64, "num_experts": 32,
    "num_experts_per_tok": 4, "moe_intermediate_size": 768,
}  # fmt: skip


def listed(path: Path, **options: Any) -> Listing:
    return forward.products(configuration.read(path), Serving(**options))
