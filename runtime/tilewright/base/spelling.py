"""Spells values and lists for people, and finds the word that a misspelt word may mean."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import takewhile

# Names of types in other libraries, and ours.
_OTHER_NAMES = {
    "fp8": "e4m3", "float8": "e4m3", "fp8_e4m3": "e4m3", "float8_e4m3fn": "e4m3", "fp8_e5m2": "e5m2",
    "float8_e5m2": "e5m2", "int8": "s8", "i8": "s8", "int32": "s32", "half": "f16", "float": "f32",
    "fp4": "nvfp4",
}  # fmt: skip
# Comparing two words takes time in proportion to the product of their lengths: 10 us for names of fields.
_LONGEST_WORD = 100
_MOST_CANDIDATES = 1000
_MOST_QUOTED = 60  # characters of a value in a message


def text(value: object) -> str:
    """A value as a spec spells it: `true`, `128x256x64` (also from a table's list), `bf16`."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return "x".join(map(str, value))
    return str(value)


def listed(items: list[str], shown: int = 12) -> str:
    """`a, b, c`, or the first items of a long list and the number of the others."""
    more = f", and {len(items) - shown:,} more" if len(items) > shown else ""
    return (", ".join(items[:shown]) or "none") + more


def nearest(wrong: str, candidates: Iterable[str]) -> str | None:
    """The candidate that a wrong word likely means, if any is near. Case does not count. Other libraries'
    names of types are known."""
    if len(wrong) > _LONGEST_WORD:
        return None
    candidates = _compared(wrong, sorted(candidates))
    own_name = _OTHER_NAMES.get(wrong.lower())
    if own_name in candidates:
        return own_name
    folded = {candidate.lower(): candidate for candidate in candidates}
    from difflib import get_close_matches  # noqa: PLC0415 (a millisecond, and most words are right)

    near = get_close_matches(wrong.lower(), folded, n=1, cutoff=0.6)
    return folded[near[0]] if near else None


def _compared(wrong: str, candidates: Sequence[str]) -> Sequence[str]:
    """The candidates to compare. Of more than `_MOST_CANDIDATES`, those that begin most like the word."""
    if len(candidates) <= _MOST_CANDIDATES:
        return candidates
    return sorted(candidates, key=lambda name: -_equal_letters(wrong, name))[:_MOST_CANDIDATES]


def _equal_letters(left: str, right: str) -> int:
    """The number of letters with which two words begin alike."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(left, right, strict=False)))


def did_you_mean(wrong: str, candidates: Iterable[str]) -> str:
    """`"; did you mean 'x'?"`, or the empty string if no candidate is near."""
    near = nearest(wrong, candidates)
    return f"; did you mean {near!r}?" if near else ""


def quoted(text: str) -> str:
    """The text in quotes for a message; a long text is cut."""
    return (
        repr(text) if len(text) <= _MOST_QUOTED else f"{text[:_MOST_QUOTED]!r}... ({len(text):,} characters)"
    )


def cut(text: str) -> str:
    """The text for a message, without quotes; a long text is cut."""
    return text if len(text) <= _MOST_QUOTED else f"{text[:_MOST_QUOTED]}... ({len(text):,} characters)"
