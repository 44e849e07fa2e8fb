"""The values of unquoted words of YAML: the core of YAML 1.2, and a refusal of words on which readers
disagree.

YAML 1.1 reads `no` as false, `1:30` as 90, `010` as 8 and `2024-01-02` as a date; YAML 1.2 reads none of
them so. A spec says what it means, so each of these is a fault and the message says how to write it.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from tilewright.base.spelling import quoted


class Trap(NamedTuple):
    """Why a word cannot stand unquoted."""

    message: str


_WORDS: dict[str, bool | None] = {
    "true": True,
    "false": False,
    "": None,
    "~": None,
    "null": None,
    "Null": None,
    "NULL": None,
}
_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]{0,17})")
_FLOAT = re.compile(r"[-+]?([0-9]+\.[0-9]*|\.[0-9]+|[0-9]+(?=[eE]))([eE][-+]?[0-9]+)?")
_TRAPS = (
    (re.compile(r"(?i:yes|no|on|off)"), "YAML readers take it for a boolean; write true or false"),
    (re.compile(r"(?i:true|false)"), "write booleans in lower case, true or false"),
    (
        re.compile(r"[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?"),
        "YAML readers take it for a number to base 60 (1:30 is 90); write the number in decimal",
    ),
    (
        re.compile(r"[-+]?0o?[0-9_]+"),
        "YAML readers disagree on whether it is octal (010 is 8); write the number without leading zeros",
    ),
    (re.compile(r"[-+]?0(x[0-9a-fA-F_]+|b[01_]+)"), "write the number in decimal"),
    (
        re.compile(r"[-+]?(?=[0-9.]*_)([0-9][0-9_]*(\.[0-9_]*)?|\.[0-9][0-9_]*)([eE][-+]?[0-9]+)?"),
        "write the number without underscores",
    ),
    (re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([Tt ].*)?"), "YAML readers take it for a date"),
    (re.compile(r"[-+]?\.(?i:inf|nan)"), "no field takes infinity or NaN"),
)


@lru_cache(4096)
def resolve(text: str) -> str | int | float | bool | Trap | None:
    """The value of an unquoted scalar, or why it is refused."""
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    for pattern, advice in _TRAPS:
        if pattern.fullmatch(text):
            spelt = quoted(text)
            return Trap(f"{spelt} unquoted is a trap: {advice}; quote it ({spelt}) if text is meant")
    if _FLOAT.fullmatch(text):
        return float(text)
    return text
