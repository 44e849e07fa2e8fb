"""How values and lists of words are spelt for people, and which word may have been meant."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def text(value: object) -> str:
    """A value as a spec spells it: `true`, `128x256x64` (also from a table's list), `bf16`."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return "x".join(map(str, value))
    return str(value)


def listed(items: list[str], shown: int = 12) -> str:
    """`a, b, c`, or the first ones of a long list and how many more there are."""
    more = f", and {len(items) - shown:,} more" if len(items) > shown else ""
    return (", ".join(items[:shown]) or "none") + more


def nearest(wrong: str, candidates: Iterable[str]) -> str | None:
    """The candidate that is likely meant, if any is near; case does not count."""
    folded = {candidate.lower(): candidate for candidate in sorted(candidates)}
    near = get_close_matches(wrong.lower(), folded, n=1, cutoff=0.6)
    return folded[near[0]] if near else None


def did_you_mean(wrong: str, candidates: Iterable[str]) -> str:
    """`"; did you mean 'x'?"`, or the empty string where nothing is near."""
    near = nearest(wrong, candidates)
    return f"; did you mean {near!r}?" if near else ""
