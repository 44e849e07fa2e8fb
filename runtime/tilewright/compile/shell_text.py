"""Characters that are unsafe in a path or a define on a compiler's command line.

nvcc starts its steps (cicc, ptxas, the host compiler) with `sh -c`, each word between double quotes, and
quotes nothing in them. So `$(...)` and backticks in a word are run as commands, by a compile that may well
succeed. It drops quotes, and splits at commas what it passes on; and the list of headers that the compilers
write for make has its own meaning for `#` and `\\`. Spaces, parentheses, `;`, `&`, `|` and letters of any
script are fine (nvcc 13.0).
"""

from __future__ import annotations

import unicodedata

_RUN = frozenset("$`")
_MISREAD = frozenset("\"'\\#,")


def fault(text: str) -> str:
    """What is wrong with a word of a command line, as the end of a message; "" if nothing is."""
    for character in text:
        if character in _RUN:
            return (
                f"holds {character!r}: nvcc hands its words to sh, which would run what follows as a command"
            )
        if character in _MISREAD:
            return f"holds {character!r}, which nvcc, sh or make take for a sign of their own"
        if unicodedata.category(character).startswith("C"):
            return f"holds the control character {character!r}"
    return ""
