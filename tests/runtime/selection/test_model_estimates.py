"""The cost models answer what they answered: no constant of theirs changes unseen."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from math import isclose
from typing import Any

import model_estimates
import pytest
from model_estimates import Estimate

# Modules, or classes of such, whose numbers are in capitals.
MODELS = (
    "gemm.cost:Cutlass", "blockscaled_gemm.cost_hopper:Hopper", "blockscaled_gemm.cost_sm120:Sm120",
    "blockscaled_gemm.cost_tcgen05:Tcgen05", "selection.persistent", "selection.persistent:TileModel",
    "selection.persistent:PersistentModel", "quantize.cost", "hc_prenorm.cost",
)  # fmt: skip
KERNELS, WRITTEN = model_estimates.read()


def answer(estimate: Estimate) -> Estimate:
    return model_estimates.estimate(
        estimate.family, KERNELS[estimate.kernel], estimate.device, estimate.problem, estimate.tactic
    )


def differs(estimate: Estimate) -> bool:
    now = answer(estimate)
    return not isclose(now.us, estimate.us, rel_tol=1e-6) or now.bound != estimate.bound


@pytest.mark.parametrize("family", model_estimates.FAMILIES)
def test_estimates_are_those_that_were_written_down(family: str) -> None:
    """Where a change is meant: `python tests/runtime/model_estimates.py` writes them anew."""
    changed = [
        (estimate, answer(estimate))
        for estimate in WRITTEN
        if estimate.family == family and differs(estimate)
    ]
    assert not changed, f"{len(changed)} differ, the first: {changed[0]}"


def holder_of(name: str) -> Any:
    module, _, model = name.partition(":")
    package = "tilewright" if module.startswith("selection.") else "tilewright.families"
    actual = importlib.import_module(f"{package}.{module}")
    return getattr(actual, model) if model else actual


def constants() -> Iterator[Any]:
    """The numbers of each model and of its tables: the module, the name, and the key in a table."""
    for where in MODELS:
        family = where.partition(".")[0]
        # Of types, which a model imports.
        facts = {} if family == "selection" else vars(holder_of(f"{family}.problem"))
        for name, value in vars(holder_of(where)).items():
            if not name.isupper() or facts.get(name) is value:
                continue
            if isinstance(value, dict):
                yield from (pytest.param(where, name, key, id=f"{where}-{name}-{key}") for key in value)
            elif isinstance(value, (int, float)) and value:
                yield pytest.param(where, name, None, id=f"{where}-{name}")


@pytest.mark.parametrize(("where", "name", "key"), list(constants()))
def test_every_constant_shows_in_an_estimate(
    monkeypatch: pytest.MonkeyPatch, where: str, name: str, key: Any
) -> None:
    """Doubled, it changes one that was written down."""
    holder = holder_of(where)
    if key is None:
        monkeypatch.setattr(holder, name, 2 * getattr(holder, name))
    else:
        monkeypatch.setitem(getattr(holder, name), key, 2 * getattr(holder, name)[key])
    caches = [value for value in vars(holder).values() if hasattr(value, "cache_clear")]
    try:
        for cache in caches:
            cache.cache_clear()
        assert any(map(differs, WRITTEN))
    finally:
        for cache in caches:
            cache.cache_clear()
