"""Asks a family's rules about a candidate."""

from __future__ import annotations

from typing import Any, NamedTuple

from tilewright_generator.errors import InternalError
from tilewright_generator.families.family import Family


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
    found: list[Verdict] = []
    name = ""
    try:
        for rule in family.rules:
            name = rule.name
            reason = rule(candidate)
            if reason is not None:
                found.append(Verdict(name, reason, rule.limit.whose))
                if first:
                    break
    except Exception as error:
        raise InternalError(f"the rule {name} of {family.name} fails on {candidate}: {error!r}") from error
    return found
