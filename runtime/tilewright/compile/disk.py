"""A disk that is full, or that cannot be written: how that is seen, and what is said of it."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

from tilewright.errors import StoreError

_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # the disk, a quota, a limit on the size of files
# What compilers and linkers say then; after "when writing output to", gcc often names another reason.
_SAID_FULL = (
    r"No space left on device|Disk quota exceeded|File too large|File size limit exceeded"
    r"|fatal error: when writing output to|fatal error: could not close (temporary )?response file"
)

# nvcc keeps some five forms of a unit's text while it compiles; with CUTLASS 4.2 or 4.5, that has 12 MiB.
UNIT_DISK_BYTES = 64 << 20


def says_full(text: str) -> bool:
    """Whether compilers or linkers say that the disk is full, or a quota."""
    return re.search(_SAID_FULL, text, re.IGNORECASE) is not None


def failure(root: Path, error: OSError) -> StoreError:
    """The error for a build cache in `root` that cannot be written."""
    if error.errno not in _FULL:
        return StoreError(
            f"cannot write to the build cache in {root}: {error.strerror}: {error.filename}",
            hint="Set TILEWRIGHT_CACHE to a folder that can be written.",
        )
    free = _free_bytes(root)
    room = "it is not known how much is free" if free is None else f"{free / (1 << 20):.1f} MiB are free"
    needed = f"to compile and link a kernel takes about {UNIT_DISK_BYTES >> 20} MiB for a while"
    hint = "Free some, and the build goes on; or set TILEWRIGHT_CACHE to a folder on another disk."
    if free is not None and free >= UNIT_DISK_BYTES:
        needed += ". So a quota or a limit on the size of files ended the build"
        hint = "Raise the limit (`ulimit -f`) or the quota; or set TILEWRIGHT_CACHE to a folder elsewhere."
    return StoreError(f"no space left for the build cache in {root}: {room}, and {needed}", hint=hint)


def _free_bytes(root: Path) -> int | None:
    """The free space of the disk; a limit on the size of files, or a quota, may allow less."""
    present = next(folder for folder in (root, *root.parents) if folder.is_dir())
    try:
        left = os.statvfs(present)
    except OSError:
        return None
    return left.f_bavail * left.f_frsize
