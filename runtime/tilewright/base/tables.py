"""Texts and tables for people, as wide as their terminal."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterable, Sequence

_NARROWEST, _WIDEST, _ELSEWHERE = 60, 160, 80  # columns; the last if output is no terminal
_LEAST_TEXT = 40  # columns that a table's last cells need; if fewer are left, they go below the other cells


def width() -> int:
    """The most columns of tables and texts: those of the terminal, or 80 if output goes elsewhere, so that it
    is equal everywhere."""
    if sys.stdout is None or not sys.stdout.isatty():
        return _ELSEWHERE
    import shutil  # noqa: PLC0415 (1.5 ms, and only a terminal needs it)

    return min(max(shutil.get_terminal_size().columns, _NARROWEST), _WIDEST)


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
