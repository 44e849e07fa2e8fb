"""Writes files: whole or not at all, and never through a symbolic link.

A project's files come from branches that nobody has read yet, and a link among them may lead to any file of
whoever runs a command. So a link in the place of a file, or of a folder of the project that is written to,
is an error that names it.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from tilewright.errors import UnwritableFileError


def check(path: Path, root: Path | None = None) -> None:
    """Raises UnwritableFileError where `path` is a link, or one of its folders below `root` is."""
    path = Path(os.path.abspath(path))  # noqa: PTH100 (a `..` leads where its text says)
    places = [path]
    if root is not None and path.is_relative_to(root := Path(os.path.abspath(root))):  # noqa: PTH100
        places = [
            place for place in (*reversed(path.parents), path) if place != root and root in place.parents
        ]
    for place in places:
        if place.is_symlink():
            raise UnwritableFileError(
                place,
                "a symbolic link, and nothing is written through links",
                hint=f"Remove the link, or name the place that it leads to: {os.path.realpath(place)}",
            )


def write(path: Path, data: str | bytes, root: Path | None = None, *, sync: bool = False) -> None:
    """Replace the file at `path`, or make it; text is UTF-8. `sync`: it is on the disk when this returns.

    A device or a pipe that `path` names itself is written to. Raises as `check` does, and OSError.
    """
    check(path, root)
    data = data.encode() if isinstance(data, str) else data
    mode = None
    with suppress(FileNotFoundError):
        mode = path.lstat().st_mode
        if stat.S_ISDIR(mode):
            raise UnwritableFileError(path, "a folder, where a file is to be written")
        if not stat.S_ISREG(mode):
            _fill(os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC), data)
            return
    replace(f"{path.parent}/.{path.name}.{os.getpid()}", str(path), data, mode=mode, sync=sync)


def replace(draft: str, path: str, data: bytes, *, mode: int | None = None, sync: bool = False) -> None:
    """Write `draft`, then move it into the place of `path`; what killed runs left in its own place goes.

    `mode`: who may read and write the file, if not whom the process's umask says.
    """
    try:
        descriptor = _new(draft)
        if mode is not None:
            os.fchmod(descriptor, mode & 0o777)
        _fill(descriptor, data, sync=sync)
        os.replace(draft, path)  # noqa: PTH105 (pathlib doubles the cost of what is done for every kernel)
    except BaseException:
        with suppress(OSError):
            os.unlink(draft)  # noqa: PTH108
        raise


def _new(path: str) -> int:
    """A descriptor of a new file. O_EXCL makes none through a link, or of a file with other names."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(path, flags, 0o666)
    except FileExistsError:
        os.unlink(path)  # noqa: PTH108
        return os.open(path, flags, 0o666)


def _fill(descriptor: int, data: bytes, *, sync: bool = False) -> None:
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        if sync:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)
