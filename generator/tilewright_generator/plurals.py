"""Numbers in sentences."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """`1 kernel`, `2,000 kernels`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def are(number: int) -> str:
    """The verb after `counted`."""
    return "is" if number == 1 else "are"
