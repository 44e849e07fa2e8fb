"""Numbers in sentences."""

from __future__ import annotations

_QUOTED = 60  # characters of a value that a message quotes


def counted(number: int, noun: str) -> str:
    """`1 kernel`, `2,000 kernels`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def are(number: int) -> str:
    """The verb after `counted`."""
    return "is" if number == 1 else "are"


def quoted(text: str) -> str:
    """The text in quotes, as a message quotes it: cut where nobody would read on."""
    return repr(text) if len(text) <= _QUOTED else f"{text[:_QUOTED]!r}... ({len(text):,} characters)"


def cut(text: str) -> str:
    """The same without quotes."""
    return text if len(text) <= _QUOTED else f"{text[:_QUOTED]}... ({len(text):,} characters)"
