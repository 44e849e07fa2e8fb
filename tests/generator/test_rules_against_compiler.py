"""The rules and nvcc agree, or the rule says why it is stricter: about every configuration of the records
that `benchmarks/robustness/rules_against_compiler.py` makes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from command_line import ROOT

from tilewright.base.spelling import text
from tilewright.configurations.family import Family
from tilewright.families.blockscaled_gemm import mma_rules, rubin_rules, tcgen05_rules
from tilewright.families.gemm import cute_dsl_rules
from tilewright.families.gemm import tcgen05_rules as gemm_tcgen05_rules
from tilewright_generator import families
from tilewright_generator.fields import fields_of
from tilewright_generator.rules import verdicts

# The sample of `grouped_gemm` is of CUTLASS's kernels for tcgen05. Its other rules judge kernels of ours.
RULES_OF_GROUPED_TCGEN05 = {"tcgen05_tile", "settled_fields", "shared_memory"}
RECORDS = sorted((ROOT / "benchmarks" / "results").glob("rules_against_compiler*.json"))


@pytest.fixture(params=RECORDS, ids=lambda path: path.stem)
def record(request: pytest.FixtureRequest) -> dict[str, Any]:
    actual: dict[str, Any] = json.loads(request.param.read_text(encoding="utf-8"))
    return actual


@pytest.fixture
def family(record: dict[str, Any]) -> Family:
    return families.get(record["family"])


def configured(family: Family, row: dict[str, Any]) -> Any:
    """The configuration of a row, whose shapes are lists."""
    fields = fields_of(family)
    return family.config(
        **{
            name: fields[name].parse(text(value) if isinstance(value, list) else value)
            for name, value in row["config"].items()
        }
    )


def test_todays_rules_say_of_the_sample_what_they_said(record: dict[str, Any], family: Family) -> None:
    for row in record["candidates"]:
        config = configured(family, row)
        assert family.kernel_name(config) == row["name"]
        actual = [(verdict.rule, verdict.reason) for verdict in verdicts(family, config)]
        assert actual == ([(row["rule"], row["reason"])] if row["rule"] else []), row["name"]


def test_nvcc_agrees_or_the_rule_says_why_it_is_stricter(record: dict[str, Any], family: Family) -> None:
    stricter = {rule.name for rule in family.rules if rule.compiles}
    for row in record["candidates"]:
        assert row["compiles"] == (row["error"] == "")
        if not row["rule"]:
            assert row["compiles"], f"{row['name']} is accepted: {row['error']}"
        elif row["compiles"]:
            assert row["rule"] in stricter, f"{row['name']} compiles, and {row['rule']} rejects it"


def test_a_whole_sample_has_every_rule(record: dict[str, Any], family: Family) -> None:
    """The rules of block-scaled kernels of CUTLASS's, because those of our mainloops for Blackwell and of
    Rubin came after the sample was drawn; of `gemm`, those of sources that nvcc compiles."""
    if len(record["candidates"]) == record["drawn"]:
        later = (*mma_rules.RULES, *tcgen05_rules.RULES, *rubin_rules.RULES)
        if record["family"] == "gemm":
            later = (*cute_dsl_rules.RULES, *gemm_tcgen05_rules.RULES)
        rules = {rule.name for rule in family.rules} - {rule.name for rule in later}
        if record["family"] == "grouped_gemm":
            rules &= RULES_OF_GROUPED_TCGEN05
        assert {row["rule"] for row in record["candidates"]} == rules | {""}


def test_nvcc_was_asked_about_every_n_of_gemm() -> None:
    path = ROOT / "benchmarks/results/rules_against_compiler_gemm.json"
    rows = json.loads(path.read_text(encoding="utf-8"))["candidates"]
    asked = {row["config"]["tile"][1]: row["compiles"] for row in rows if row["rule"] in ("", "odd_columns")}
    assert set(range(8, 257, 8)) <= asked.keys()
