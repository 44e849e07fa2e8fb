"""Spells values, lists and tables for people, and finds the word that a misspelt word may mean."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterable, Sequence

# Names of types in other libraries, and ours.
_OTHER_NAMES = {
    "fp8": "e4m3", "float8": "e4m3", "fp8_e4m3": "e4m3", "float8_e4m3fn": "e4m3", "fp8_e5m2": "e5m2",
    "float8_e5m2": "e5m2", "int8": "s8", "i8": "s8", "int32": "s32", "half": "f16", "float": "f32",
    "fp4": "nvfp4",
}  # fmt: skip
_NARROWEST, _WIDEST, _ELSEWHERE = 60, 160, 80  # columns; the last if output is no terminal
# Comparing two words takes time in proportion to the product of their lengths: 10 us for names of fields.
_LONGEST_WORD = 100
_MOST_CANDIDATES = 1000
_MOST_QUOTED = 60  # characters of a value in a message
_LEAST_TEXT = 40  # columns that a table's last cells need; if fewer are left, they go below the other cells


def width() -> int:
    """The most columns of tables and texts: those of the terminal, or 80 if output goes elsewhere, so that it
    is equal everywhere."""
    if sys.stdout is None or not sys.stdout.isatty():
        return _ELSEWHERE
    import shutil  # noqa: PLC0415 (1.5 ms, and only a terminal needs it)

    return min(max(shutil.get_terminal_size().columns, _NARROWEST), _WIDEST)


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
    candidates = sorted(candidates)[:_MOST_CANDIDATES]
    own_name = _OTHER_NAMES.get(wrong.lower())
    if own_name in candidates:
        return own_name
    folded = {candidate.lower(): candidate for candidate in candidates}
    from difflib import get_close_matches  # noqa: PLC0415 (a millisecond, and most words are right)

    near = get_close_matches(wrong.lower(), folded, n=1, cutoff=0.6)
    return folded[near[0]] if near else None


def did_you_mean(wrong: str, candidates: Iterable[str]) -> str:
    """`"; did you mean 'x'?"`, or the empty string if no candidate is near."""
    near = nearest(wrong, candidates)
    return f"; did you mean {near!r}?" if near else ""


def wrapped(text: str, indent: str = "", hanging: str | None = None) -> list[str]:
    """A text in lines of `width()` columns, broken at spaces alone, so that a name stays whole; lines after
    the first begin with `hanging` (default: `indent`)."""
    return textwrap.wrap(
        text, width(), initial_indent=indent, subsequent_indent=indent if hanging is None else hanging,
        break_long_words=False, break_on_hyphens=False,
    )  # fmt: skip


def table(rows: Sequence[Sequence[str]], indent: str = "  ") -> list[str]:
    """Aligned rows of a name, columns, and a text last.

    If a row does not fit into `width()` columns and 40 are left beside the columns, the text is broken there.
    If fewer are left, the columns go below the name, and the text below the columns if it does not fit beside
    them. Columns that are too wide themselves are not aligned.
    """
    most = width()
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    before = len(indent) + sum(widths[:-1]) + 2 * (len(widths) - 1)
    if before + min(widths[-1], _LEAST_TEXT) <= most:
        return [
            line
            for row in rows
            for line in _beside(indent + _aligned(row[:-1], widths[:-1]), row[-1], before)
        ]
    lines, inner = [], f"{indent}    "
    aligned = len(inner) + sum(widths[1:-1]) + 2 * (len(widths) - 3) <= most
    for name, *columns, last in rows:
        shown = inner + (_aligned(columns, widths[1:-1]) if aligned else "  ".join(filter(None, columns)))
        lines.append(f"{indent}{name}")
        if len(shown) + 2 + widths[-1] <= most:
            lines.append(f"{shown}  {last}".rstrip())
        else:
            lines += wrapped(shown.strip(), inner) if len(shown) > most else [shown.rstrip()]
            lines += wrapped(last, inner)
    return lines


def _beside(columns: str, last: str, before: int) -> list[str]:
    """A row whose last cell begins `before` columns from the left."""
    return wrapped(last, columns.ljust(before), " " * before) or [columns.rstrip()]


def _aligned(cells: Iterable[str], widths: Iterable[int]) -> str:
    return "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True))


def quoted(text: str) -> str:
    """The text in quotes for a message; a long text is cut."""
    return (
        repr(text) if len(text) <= _MOST_QUOTED else f"{text[:_MOST_QUOTED]!r}... ({len(text):,} characters)"
    )


def cut(text: str) -> str:
    """The text for a message, without quotes; a long text is cut."""
    return text if len(text) <= _MOST_QUOTED else f"{text[:_MOST_QUOTED]}... ({len(text):,} characters)"
