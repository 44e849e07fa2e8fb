"""The proof of bundles asks about every value, and sees a tactic that is not the library's."""

from __future__ import annotations

import argparse
import dataclasses
import json
from pathlib import Path

import pytest
from benchmarks.lib import machine
from benchmarks.robustness import bundle_closure

from tilewright.tools.bundling import closure, planning
from tilewright.tools.bundling.planning import Planned

TOKENS = 40
QWEN, DEEPSEEK = bundle_closure.BUNDLES


def options(again: int | None) -> argparse.Namespace:
    return argparse.Namespace(jobs=1, again=again)


def groups(model: bundle_closure.Model, *layers: str) -> list[tuple[planning.Product, ...]]:
    products = planning.distinct(model.listing(TOKENS).products)
    return [group for group in products if group[0].layer in layers]


@pytest.mark.parametrize(
    ("model", "layers"),
    [(QWEN, ("qkv_proj", "down_proj")), (DEEPSEEK, ("w_uk", "q_b_proj", "q_b_proj input"))],
)
def test_the_library_chooses_the_tactics_of_the_list(
    model: bundle_closure.Model, layers: tuple[str, ...]
) -> None:
    rows = bundle_closure.prove("some layers", groups(model, *layers), options(None))
    assert {row["layers"][0] for row in rows} >= {*layers}
    for row in rows:
        assert row["values"] == TOKENS
        is_dense = row["problem"].startswith("gemm ")
        assert row["asked again"] == (TOKENS if is_dense else 0)
        assert not row["differences"]


def test_another_tactic_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A list that has one tactic for all values differs from the library for most of them."""
    whole = closure.choices

    def first_alone(*arguments: object, at_once: bool = True) -> list[closure.Chosen]:
        answers = whole(*arguments, at_once=at_once)  # type: ignore[arg-type]
        return answers[:1] if at_once else answers

    monkeypatch.setattr(closure, "choices", first_alone)
    (product,) = groups(QWEN, "o_proj")[0]
    product = dataclasses.replace(product, values=range(64, 1025, 64))
    (row,) = bundle_closure.prove("a layer", [(product,)], options(None))
    assert row["differences"] > len(product.values) // 2
    assert len(row["examples"]) == bundle_closure.SHOWN


def test_ends_of_ranges_and_some_values_are_asked_again_about() -> None:
    (product,) = groups(bundle_closure.Model("qwen3-8b.json"), "o_proj")[0]
    product = dataclasses.replace(product, values=range(1, 5001))
    chosen = (closure.Chosen(1, "a", "model"), closure.Chosen(3000, "b", "model"))
    again = bundle_closure.again_of(Planned((product,), chosen), 100)
    assert {*range(1, bundle_closure.FIRST + 1), 2999, 3000, 5000} <= {*again}
    assert bundle_closure.FIRST + 90 < len(again) < bundle_closure.FIRST + 104
    assert bundle_closure.again_of(Planned((product,), chosen), None) == [*product.values]


def test_rows_of_shares_are_gathered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "RESULTS", tmp_path)
    counts = {"values": 2, "asked again": 1, "differences": 0}
    rows = [{"layers": [name], "problem": name, "to": 9, **counts} for name in "xyz"]
    bundle_closure.write({"a model": rows[:2]}, 16)
    bundle_closure.write({"a model": [{**rows[1], "values": 5}, rows[2]]}, 16)
    content = json.loads((tmp_path / bundle_closure.NAME).read_text())
    bundle = content["bundles"]["a model"]
    assert [row["layers"] for row in bundle["problems"]] == [["x"], ["y"], ["z"]]
    assert (bundle["values"], bundle["asked again"]) == (9, 3)


def test_the_record_has_every_problem_of_both_bundles() -> None:
    content = json.loads((machine.RESULTS / bundle_closure.NAME).read_text(encoding="utf-8"))
    for model in bundle_closure.BUNDLES:
        recorded = content["bundles"][str(model)]
        products = planning.distinct(model.listing(content["tokens"]).products)
        expected = {(*dict.fromkeys(p.layer for p in group), str(group[0].example)) for group in products}
        assert {(*row["layers"], row["problem"]) for row in recorded["problems"]} == expected
        assert recorded["values"] == sum(len(group[0].values) for group in products)
        assert recorded["differences"] == 0
