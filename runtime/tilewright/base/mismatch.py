"""What a schema says of a value that it does not take."""

from __future__ import annotations

import json
from collections.abc import Mapping

MOST_INTEGER = 2**63 - 1
_SHOWN = 60  # of a value, in a message


class Mismatch(Exception):  # noqa: N818 (no error of its own: `reading` makes one of it)
    """A value that is not what a schema wants."""

    def __init__(self, fault: str, *wrong: object) -> None:
        super().__init__(fault)
        self._fault, self._wrong = fault, wrong
        self._steps: list[str] = []  # that lead to the value, the innermost first

    @classmethod
    def wants(cls, wanted: str, given: object) -> Mismatch:
        """Something is wanted in the place of `given`."""
        return cls(f"{wanted} is wanted, not ", given)

    @property
    def fault(self) -> str:
        """What there is instead; put together where it is told, as a union drops that of most members."""
        return self._fault + "".join(map(shown, self._wrong))

    def within(self, step: str) -> Mismatch:
        """The same, one level further out."""
        self._steps.append(step)
        return self

    def __str__(self) -> str:
        place = "".join(reversed(self._steps)).lstrip(".")
        return f"{place}: {self.fault}" if place else self.fault


def shown(value: object) -> str:
    """A value of JSON as messages show it: short, in ASCII."""
    if isinstance(value, list):
        return "a list"
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, int) and abs(value) > MOST_INTEGER:
        return "a number of more than 64 bits"
    text = json.dumps(value[: _SHOWN + 1] if isinstance(value, str) else value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."
