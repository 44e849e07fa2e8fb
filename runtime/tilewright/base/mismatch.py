"""The exception for a value that does not match a schema."""

from __future__ import annotations

import json
from collections.abc import Mapping

MOST_INTEGER = 2**63 - 1
_SHOWN = 60  # characters of a value that a message shows


class Mismatch(Exception):  # noqa: N818 (`reading` turns it into an error)
    """A value does not match a schema."""

    def __init__(self, fault: str, *wrong: object) -> None:
        super().__init__(fault)
        self._fault, self._wrong = fault, wrong
        self._steps: list[str] = []  # the path to the value, the innermost step first

    @classmethod
    def of(cls, expected: str, actual: object) -> Mismatch:
        """The mismatch of a value that is not what the schema expects."""
        return cls(f"expected {expected}, got ", actual)

    @property
    def fault(self) -> str:
        """The message without the place. It is composed when it is read, because a union drops most of
        them."""
        return self._fault + "".join(map(shown, self._wrong))

    def within(self, step: str) -> Mismatch:
        """The same mismatch, one level further out."""
        self._steps.append(step)
        return self

    def __str__(self) -> str:
        place = "".join(reversed(self._steps)).lstrip(".")
        return f"{place}: {self.fault}" if place else self.fault


def shown(value: object) -> str:
    """A value of JSON in a message: short, in ASCII."""
    if isinstance(value, list):
        return "a list"
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, int) and abs(value) > MOST_INTEGER:
        return "a number of more than 64 bits"
    text = json.dumps(value[: _SHOWN + 1] if isinstance(value, str) else value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."
