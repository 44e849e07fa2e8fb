"""Operands and tactics for the tests of torch's machinery."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import gemm_reference as reference
import pytest
import torch

from tilewright.context import current
from tilewright.errors import NotBuiltError

RunApart: TypeAlias = Callable[..., None]  # the fixture `run_apart`: a script, a tactic or "", further words


def built(call: Callable[[], Any]) -> Any:
    """What the call answers; a test whose kernel is not built is skipped."""
    try:
        return call()
    except NotBuiltError as error:
        return pytest.skip(error.message)


def stream_k_tactic() -> str:
    """A tactic that cuts k in a built stream-K kernel of TF32, so that it needs a workspace."""
    registry = current().registry
    for record in registry.route("gemm", current().device(0)):
        config = record.config
        kind = (config["a"], config["d"], config["layout"], config["scheduler"], config["activation"])
        if kind == ("tf32", "f32", "tn", "stream_k", "none") and registry.is_built(record):
            return f"{record.name}@decomposition=split_k,splits=2"
    pytest.skip("no stream-K kernel is built")
    return ""


def random(*shape: int, dtype: str = "bf16", seed: int = 0) -> torch.Tensor:
    return reference.random(shape, dtype, seed)


def weight(n: int, k: int, dtype: str = "bf16", seed: int = 1) -> torch.Tensor:
    """[k, n], column-major."""
    return random(n, k, dtype=dtype, seed=seed).t()
