"""Checks who may have written the files of a cache: only this user and root.

The hashes in a cache say whether a file is what was written; who can replace the file can replace its hash,
too. So they guard against accidents (a cut file, a full disk), and the file system's rights against people.
"""

from __future__ import annotations

import grp
import os
import pwd
import stat
from functools import cache
from pathlib import Path

from tilewright.base import sets
from tilewright.errors import CacheRefusedError

VARIABLE = "TILEWRIGHT_TRUST_CACHE"


def check(path: Path, root: Path) -> None:
    """Checks a file or folder of the cache, or of the installed libraries, whose folder is `root`, or `root`
    itself.

    Raises CacheRefusedError where it, or a folder between it and `root`, belongs to another user than this
    one and root; and where others may write to one of these, or may replace it, since they may write to a
    folder above (one with the sticky bit, as /tmp, lets them replace only what is theirs). What is not there
    yet is passed over. With TILEWRIGHT_TRUST_CACHE=1 nothing is checked.
    """
    if os.environ.get(VARIABLE) == "1":
        return
    real, top = path.resolve(), root.resolve()
    for level in (real, *real.parents):
        try:
            status = level.stat()
        except FileNotFoundError:
            continue
        inside = level.is_relative_to(top)
        if inside and status.st_uid not in (os.geteuid(), 0):
            raise _refused(root, f"{level} belongs to {_name(status.st_uid)}")
        if not inside and status.st_mode & stat.S_ISVTX:
            continue
        if status.st_mode & stat.S_IWOTH:
            raise _refused(root, f"everybody may write to {level} (`chmod o-w` ends that)")
        if status.st_mode & stat.S_IWGRP and not _is_private(status.st_gid):
            raise _refused(root, f"its group may write to {level} (`chmod g-w` ends that)")


def _refused(root: Path, why: str) -> CacheRefusedError:
    if root in sets.library_folders():
        return CacheRefusedError(
            f"the built libraries in {root} are not safe to run code from: {why}",
            hint="Let them belong to you or root, and nobody else write there; or, if you trust who may, "
            f"{VARIABLE}=1.",
        )
    return CacheRefusedError(
        f"the build cache in {root} is not safe to run code from: {why}",
        hint="Set TILEWRIGHT_CACHE to a folder that is yours alone; or, if you trust who may write there, "
        f"{VARIABLE}=1.",
    )


def _name(uid: int) -> str:
    try:
        return f"user {pwd.getpwuid(uid).pw_name}"
    except KeyError:
        return f"user {uid}"


@cache
def _is_private(gid: int) -> bool:
    """Whether a group is this user's alone, as many systems give each user one of the same name."""
    try:
        user, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(gid)
    except KeyError:
        return False
    members = [
        account.pw_name
        for account in pwd.getpwall()
        if account.pw_gid == gid and account.pw_uid != user.pw_uid
    ]
    named = group.gr_name == user.pw_name  # a directory service does not list who has which primary group
    return named and gid == user.pw_gid and not members and set(group.gr_mem) <= {user.pw_name}
