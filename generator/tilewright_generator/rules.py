"""Asks a family's rules about a candidate."""

from __future__ import annotations

from typing import Any, NamedTuple

from tilewright_generator.errors import InternalError
from tilewright_generator.families import Family, Rule


class Verdict(NamedTuple):
    """A rule that rejects a candidate, and its reason with the numbers."""

    rule: str
    reason: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.reason}"


def verdicts(family: Family, candidate: Any, *, first: bool = False) -> list[Verdict]:
    """The rules that reject the candidate (`first`: only the first), in the family's order."""
    found: list[Verdict] = []
    name = ""
    try:
        for rule in family.rules:
            name = rule.__name__
            reason = rule(candidate)
            if reason is not None:
                found.append(Verdict(name, reason))
                if first:
                    break
    except Exception as error:
        raise InternalError(f"the rule {name} of {family.name} fails on {candidate}: {error!r}") from error
    return found


def statement(rule: Rule) -> str:
    """What the rule demands: the first paragraph of its docstring, on one line."""
    return " ".join((rule.__doc__ or "").strip().split("\n\n")[0].split())
