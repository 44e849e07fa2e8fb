"""The lines that git leaves in a file where two merged branches disagree."""

from __future__ import annotations

import re

MARK = re.compile(r"^(?:<{7}|\|{7}|={7}|>{7})(?: .*)?$")
"""A line of a conflict: where a side begins, where their common ancestor or the other side does, the end."""

# A row of equals signs may be somebody's heading; the other two stand in no YAML, C++, JSON or template.
_CERTAIN = re.compile(r"^(?:<{7}|>{7})(?: |\r?$)", re.MULTILINE)


def first(text: str) -> int | None:
    """The line, from 1, on which the first conflict of `text` stands, whole or half resolved."""
    match = _CERTAIN.search(text)
    return text.count("\n", 0, match.start()) + 1 if match else None


def marked(data: bytes) -> bool:
    """Whether a file's bytes hold a conflict."""
    return first(data.decode(errors="replace")) is not None
