"""What every family's rules are tested for: that each rejects with its numbers, and nothing else does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tilewright.configurations.family import Family
from tilewright.configurations.rule import Rule
from tilewright_generator.rules import verdicts

Rejected = tuple[Any, Mapping[str, Any], str, "str | tuple[str, ...]", Mapping[str, Any]]
"""A legal configuration, what makes it illegal, the rule, what its reason says, and what makes it legal."""


def check_rejected(family: Family, one: Rejected) -> None:
    legal, change, rule, says, remedy = one
    wrong = replace(legal, **change)
    actual = verdicts(family, wrong)
    assert [verdict.rule for verdict in actual] == [rule]
    for text in (says,) if isinstance(says, str) else says:
        assert text in actual[0].reason
    assert verdicts(family, replace(wrong, **remedy)) == []


def check_every_rule_is_shown(rejected: Iterable[Rejected], rules: Sequence[Rule]) -> None:
    assert {rule for _, _, rule, _, _ in rejected} == {rule.name for rule in rules}
