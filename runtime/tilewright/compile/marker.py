"""Which folders are build caches. Nothing is written to a folder that is not one.

A cache holds a CACHEDIR.TAG (https://bford.info/cachedir/) with a line that says it is tilewright's. The tag
is the first file that is written there. Backup programs leave out folders with such a tag.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from tilewright.base import reading
from tilewright.compile import names
from tilewright.errors import CacheRefusedError, UnreadableFileError

TAG = "CACHEDIR.TAG"
_SIGNATURE = b"Signature: 8a477f597d28d172789f06886806bc55\n"  # the same in every program's tag
_OURS = b"# A build cache of tilewright. `tilewright cache --prune` removes what nothing needs.\n"

_ANYBODYS = {"lost+found", "tuned"}  # of the file system; of `tilewright tune`, which needs no cache


def is_marked(root: Path) -> bool:
    """Whether the folder has the tag that tilewright writes."""
    with suppress(OSError, UnreadableFileError):
        return reading.contents(root / TAG).startswith(_SIGNATURE + _OURS)
    return False


def check(root: Path) -> None:
    """Raises CacheRefusedError if an existing folder holds other things than a cache of ours.

    Accepted are a folder with our tag, an empty folder, and a cache of a tilewright that wrote no tags.
    """
    if is_marked(root):
        return
    try:
        present = {name for name in os.listdir(root) if not name.startswith(f"{TAG}.")} - _ANYBODYS  # noqa: PTH208
    except FileNotFoundError:
        return
    except OSError as error:
        raise CacheRefusedError(f"{root}: {error.strerror}", hint=_hint(root.parent)) from None
    foreign = sorted(present - names.FORMS.keys()) or sorted(present)
    of_old = present <= names.FORMS.keys() and not present.isdisjoint(("locks", "digests"))
    if present and not of_old:
        raise CacheRefusedError(
            f"{root} is no build cache: it holds {foreign[0]}{' and more' if len(present) > 1 else ''}, "
            f"and no {TAG} of tilewright's",
            hint=_hint(root),
        )


def _hint(folder: Path) -> str:
    return (
        "A build cache is a folder of its own. Name one that is empty or not there yet, for example "
        f"{folder / 'tilewright-cache'} (--cache, or TILEWRIGHT_CACHE)."
    )


def mark(root: Path) -> None:
    """Writes the tag, all at once: a reader finds it whole or not at all. Raises OSError."""
    draft = root / names.unused(f"{TAG}.")
    try:
        draft.write_bytes(_SIGNATURE + _OURS)
        draft.replace(root / TAG)
    finally:
        draft.unlink(missing_ok=True)
