"""The names of what tilewright puts into a build cache."""

from __future__ import annotations

import os
import re
from pathlib import Path

_KEY = "[0-9a-f]{32}"
# By subfolder, the form of the names that tilewright gives; what has another name is not ours.
FORMS = {
    "objects": _KEY,
    "libraries": _KEY,  # below the module's folder
    "locks": r".+\.lock",
    "tmp": rf"(?:(?:library-)?{_KEY}\.|removed-)[0-9a-f]{{12}}",
    "work": r"[0-9]+-[0-9a-f]{8,12}",
    "logs": r".+\.[0-9a-f]{8}\.log",
    "quarantine": rf"[0-9]+-{_KEY}",
    "refusals": rf".+\.{_KEY}\.json",
    "digests": rf"{_KEY}\.json(?:\.[0-9]+)?",
}


def unused(stem: str) -> str:
    """A name that begins so, and that no other process gives to anything."""
    return stem + os.urandom(6).hex()


def has_our_name(path: Path, folder: str) -> bool:
    """Whether something in a cache's subfolder `folder` is called as tilewright calls what it puts there."""
    return re.fullmatch(FORMS[folder], path.name) is not None
