"""Which folders are build caches, and what in them is ours: nothing else is ever written to or removed.

A cache bears a CACHEDIR.TAG (https://bford.info/cachedir/), with a line that says it is tilewright's: the
first file that is written there. Backups leave out folders that bear one.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

from tilewright.base import reading
from tilewright.errors import CacheRefusedError, UnreadableFileError

TAG = "CACHEDIR.TAG"
_SIGNATURE = b"Signature: 8a477f597d28d172789f06886806bc55\n"  # the same in every program's tag
_OURS = b"# A build cache of tilewright. `tilewright cache --prune` removes what nothing needs.\n"

_KEY = "[0-9a-f]{32}"
# By subfolder, the form of the names that tilewright gives; what has another name is not ours.
_FORMS = {
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
_ANYBODYS = {"lost+found", "tuned"}  # of the file system; of `tilewright tune`, which needs no cache


def is_marked(root: Path) -> bool:
    """Whether the folder bears the tag that tilewright writes."""
    with suppress(OSError, UnreadableFileError):
        return reading.contents(root / TAG).startswith(_SIGNATURE + _OURS)
    return False


def check(root: Path) -> None:
    """Raises CacheRefusedError where a folder that is there holds other things than a cache of ours.

    Fine are one that bears our tag, an empty one, and a cache that a tilewright without tags has filled.
    """
    if is_marked(root):
        return
    try:
        names = {name for name in os.listdir(root) if not name.startswith(f"{TAG}.")} - _ANYBODYS  # noqa: PTH208
    except FileNotFoundError:
        return
    except OSError as error:
        raise CacheRefusedError(f"{root}: {error.strerror}", hint=_hint(root.parent)) from None
    foreign = sorted(names - _FORMS.keys()) or sorted(names)
    of_old = names <= _FORMS.keys() and not names.isdisjoint(("locks", "digests"))
    if names and not of_old:
        raise CacheRefusedError(
            f"{root} is no build cache: it holds {foreign[0]}{' and more' if len(names) > 1 else ''}, and no "
            f"{TAG} of tilewright's",
            hint=_hint(root),
        )


def _hint(folder: Path) -> str:
    return (
        "A build cache is a folder of its own. Name one that is empty or not there yet, for example "
        f"{folder / 'tilewright-cache'} (--cache, or TILEWRIGHT_CACHE)."
    )


def mark(root: Path) -> None:
    """Writes the tag, all at once: a reader finds it whole or not at all. Raises OSError."""
    draft = root / unused(f"{TAG}.")
    try:
        draft.write_bytes(_SIGNATURE + _OURS)
        draft.replace(root / TAG)
    finally:
        draft.unlink(missing_ok=True)


def unused(stem: str) -> str:
    """A name that begins so, and that no other process gives to anything."""
    return stem + os.urandom(6).hex()


def has_our_name(path: Path, folder: str) -> bool:
    """Whether something in a cache's subfolder `folder` is called as tilewright calls what it puts there."""
    return re.fullmatch(_FORMS[folder], path.name) is not None
