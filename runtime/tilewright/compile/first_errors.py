"""The errors in what a compiler prints."""

from __future__ import annotations

import re
from collections.abc import Iterable

from tilewright.compile.system import shortened

_ERRORS_SHOWN = 3
_CONTEXT_LINES = 4  # of an error


def first_errors(output: Iterable[str]) -> list[str]:
    """The first errors in a compiler's output, each with the lines that follow it. If no line is an error:
    the last lines."""
    lines = [line.rstrip() for line in output]
    starts = [
        index for index, line in enumerate(lines) if re.search(r"\b(fatal|error)\b\s*[:#]|\berror\s+:", line)
    ]
    if not starts:
        return ["\n".join(map(shortened, lines[-_CONTEXT_LINES:]))] if lines else []
    shown = starts[:_ERRORS_SHOWN]
    ends = [*starts[1:], len(lines)]
    return [
        "\n".join(map(shortened, lines[start : min(end, start + _CONTEXT_LINES)]))
        for start, end in zip(shown, ends, strict=False)
    ]
