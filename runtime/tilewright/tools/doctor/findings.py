"""The findings of a check."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

OK, WARNING, PROBLEM = LEVELS = ("ok", "warning", "problem")


class Finding(NamedTuple):
    """The result of one check. A problem keeps kernels from being built or run; a warning does not."""

    area: str
    level: str
    text: str
    mend: str = ""


Findings = Iterator[tuple[str, str, str]]  # level, text, and the remedy
