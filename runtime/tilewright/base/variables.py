"""Variables of the environment that have one of a few values."""

from __future__ import annotations

import os

from tilewright.errors import ArgumentError

VALUES = {"TILEWRIGHT_BATCH_INVARIANT": ("0", "1"), "TILEWRIGHT_JIT": ("1", "0", "lazy")}
"""The values of each variable, its default first."""


def value_of(name: str) -> str:
    """The value of a variable of `VALUES`. If it is not set, or empty: its default.

    Raises ArgumentError for any other value. `TILEWRIGHT_JIT=false` must not mean that calls compile.
    """
    values = VALUES[name]
    value = os.environ.get(name) or values[0]
    if value not in values:
        *first, last = values
        raise ArgumentError(
            name, f"expected {', '.join(first)} or {last}, got {value!r}", hint=f"Unset {name}, or mend it."
        )
    return value
