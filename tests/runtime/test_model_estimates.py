"""The cost models answer what they answered: no constant of theirs changes unseen."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from math import isclose
from types import ModuleType
from typing import Any

import model_estimates
import pytest
from model_estimates import Estimate

MODULES = (
    "gemm.cost", "blockscaled_gemm.cost_hopper", "blockscaled_gemm.cost_sm120",
    "blockscaled_gemm.cost_tcgen05", "blockscaled_gemm.cost_work", "quantize.cost", "hc_prenorm.cost",
)  # fmt: skip
# What no estimate of a kernel that is committed hangs on, and why.
SILENT = {("quantize.cost", "BLOCK_SHARED_BYTES"): "threads, not memory, say how many blocks an SM holds"}
KERNELS, WRITTEN = model_estimates.read()


def answer(one: Estimate) -> Estimate:
    return model_estimates.estimate(one.family, KERNELS[one.kernel], one.device, one.problem, one.tactic)


def differs(one: Estimate) -> bool:
    now = answer(one)
    return not isclose(now.us, one.us, rel_tol=1e-6) or now.bound != one.bound


@pytest.mark.parametrize("family", model_estimates.FAMILIES)
def test_estimates_are_those_that_were_written_down(family: str) -> None:
    """Where a change is meant: `python tests/runtime/model_estimates.py` writes them anew."""
    changed = [(one, answer(one)) for one in WRITTEN if one.family == family and differs(one)]
    assert not changed, f"{len(changed)} differ, the first: {changed[0]}"


def module_of(name: str) -> ModuleType:
    return importlib.import_module(f"tilewright.ops.{name}")


def constants() -> Iterator[Any]:
    """Of each model its numbers, and those of its tables: module, name, and key of a table."""
    for where in MODULES:
        facts = vars(module_of(f"{where.partition('.')[0]}.problem"))  # of types, which a model imports
        for name, value in vars(module_of(where)).items():
            if not name.isupper() or facts.get(name) is value:
                continue
            if isinstance(value, dict):
                yield from (pytest.param(where, name, key, id=f"{where}-{name}-{key}") for key in value)
            elif isinstance(value, (int, float)) and (where, name) not in SILENT:
                yield pytest.param(where, name, None, id=f"{where}-{name}")


@pytest.mark.parametrize(("where", "name", "key"), list(constants()))
def test_every_constant_shows_in_an_estimate(
    monkeypatch: pytest.MonkeyPatch, where: str, name: str, key: Any
) -> None:
    """Doubled, it changes one that was written down."""
    module = module_of(where)
    if key is None:
        monkeypatch.setattr(module, name, 2 * getattr(module, name))
    else:
        monkeypatch.setitem(getattr(module, name), key, 2 * getattr(module, name)[key])
    caches = [value for value in vars(module).values() if hasattr(value, "cache_clear")]
    try:
        for cache in caches:
            cache.cache_clear()
        assert any(map(differs, WRITTEN))
    finally:
        for cache in caches:
            cache.cache_clear()
