"""Variables of the environment that have one of a few values."""

from __future__ import annotations

import os
from collections.abc import Sequence

from tilewright.errors import ArgumentError


def value_of(name: str, values: Sequence[str]) -> str:
    """The value of a variable. If it is not set, or empty: the first of `values`.

    Raises ArgumentError for any other value. `TILEWRIGHT_JIT=false` must not mean that calls compile.
    """
    value = os.environ.get(name) or values[0]
    if value not in values:
        *first, last = values
        raise ArgumentError(
            name, f"expected {', '.join(first)} or {last}, got {value!r}", hint=f"Unset {name}, or mend it."
        )
    return value
