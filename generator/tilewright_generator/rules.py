"""Asks a family's rules about a candidate."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from traceback import walk_tb
from typing import Any, NamedTuple

from tilewright.configurations.family import Family
from tilewright.configurations.rule import Rule
from tilewright_generator.errors import mistake


class Verdict(NamedTuple):
    """A rule that rejects a candidate, its reason with the numbers, and whose limit it is."""

    rule: str
    reason: str
    limit: str

    @property
    def why(self) -> str:
        """The reason, and whose limit it is."""
        return f"{self.reason} (limit: {self.limit})"

    def __str__(self) -> str:
        return f"{self.rule}: {self.why}"


def verdicts(family: Family, candidate: Any, *, first: bool = False) -> list[Verdict]:
    """The rules that reject the candidate (`first`: only the first), in the family's order."""
    verdicts: list[Verdict] = []
    rule: Rule | None = None
    try:
        for rule in _rules_where(family, tuple([of(candidate) for of in _conditions(family)])):
            reason = rule.check(candidate)
            if reason is not None and not isinstance(reason, str):
                raise TypeError(f"it returned {reason!r}; expected None or the reason as text")
            if reason is not None and not rule.said_better(candidate):
                verdicts.append(Verdict(rule.name, reason, rule.limit.whose))
                if first:
                    break
    except Exception as error:
        which = f"the rule {rule.name}" if rule else "the `of` of a rule"
        message = f"{which} of {family.name} fails on {candidate}: {error!r}"
        raise mistake(family.name, message, _place(rule, error) if rule else "") from error
    return verdicts


def _place(rule: Rule, error: Exception) -> str:
    """FILE:LINE of the statement of the rule's file that raised the error; that of the rule if none did."""
    file = inspect.getsourcefile(rule.check)
    lines = [line for frame, line in walk_tb(error.__traceback__) if frame.f_code.co_filename == file]
    return f"{file}:{lines[-1] if lines else inspect.getsourcelines(rule.check)[1]}"


@cache
def _conditions(family: Family) -> tuple[Callable[[Any], bool], ...]:
    """The preconditions of rules: whether a rule applies to a candidate. Several rules share one."""
    return tuple(dict.fromkeys(rule.of for rule in family.rules))


@cache
def _rules_where(family: Family, answers: tuple[bool, ...]) -> tuple[Rule, ...]:
    """The rules that candidates with these answers of `_conditions` must pass."""
    met = {of for of, answer in zip(_conditions(family), answers, strict=True) if answer}
    return tuple(rule for rule in family.rules if rule.of in met)
