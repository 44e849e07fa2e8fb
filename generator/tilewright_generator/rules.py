"""Asks a family's rules about a candidate."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from tilewright_generator.errors import InternalError
from tilewright_generator.families import Family, Rule


class Verdict(NamedTuple):
    """A rule that rejects a candidate, and its reason with the numbers."""

    rule: str
    reason: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.reason}"


def verdicts(family: Family, candidate: Any) -> Iterator[Verdict]:
    """The rules that reject the candidate, in the family's order; none if it is legal."""
    for rule in family.rules:
        try:
            reason = rule(candidate)
        except Exception as error:
            message = f"the rule {rule.__name__} of {family.name} fails on {candidate}: {error!r}"
            raise InternalError(message) from error
        if reason is not None:
            yield Verdict(rule.__name__, reason)


def statement(rule: Rule) -> str:
    """What the rule demands: the first paragraph of its docstring, on one line."""
    return " ".join((rule.__doc__ or "").strip().split("\n\n")[0].split())
