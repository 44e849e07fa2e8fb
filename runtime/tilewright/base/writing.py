"""Writes files: whole or not at all, and never through a symbolic link.

A project's files may come from a branch that nobody has reviewed, and a link among them may lead to any file
of the user who runs a command. So a link in the place of a written file, or of its folder in the project, is
an error that names the link.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from tilewright.errors import UnwritableFileError


def check(path: Path, root: Path | None = None) -> None:
    """Raises UnwritableFileError if `path` is a link, or one of its folders below `root` is."""
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
    """Replaces or makes the file at `path`; text is UTF-8. `sync`: it is on the disk when this returns.

    If `path` is a device or a pipe, the data are written to it. Raises as `check` does, and OSError.
    """
    check(path, root)
    data = data.encode() if isinstance(data, str) else data
    mode = None
    with suppress(FileNotFoundError):
        mode = path.lstat().st_mode
        if stat.S_ISDIR(mode):
            raise UnwritableFileError(path, "a folder, where a file is to be written")
        if not stat.S_ISREG(mode):
            _fill(os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC), str(path), data)
            return
    replace(f"{path.parent}/.{path.name}.{os.getpid()}", str(path), data, mode=mode, sync=sync)


def replace(draft: str, path: str, data: bytes, *, mode: int | None = None, sync: bool = False) -> None:
    """Writes `draft`, then moves it to `path`. A draft that a killed run has left is replaced.

    `mode`: the file's permissions; by default the process's umask decides.
    """
    try:
        descriptor = _new(draft)
        if mode is not None:
            os.fchmod(descriptor, mode & 0o777)
        _fill(descriptor, path, data, sync=sync)
        os.replace(draft, path)  # noqa: PTH105 (pathlib doubles its cost, and it is done for every kernel)
    except BaseException:
        with suppress(OSError):
            os.unlink(draft)  # noqa: PTH108
        raise


def _new(path: str) -> int:
    """A descriptor of a new file. O_EXCL does not open a link, nor a file that has other names."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(path, flags, 0o666)
    except FileExistsError:
        os.unlink(path)  # noqa: PTH108
        return os.open(path, flags, 0o666)


def _fill(descriptor: int, path: str, data: bytes, *, sync: bool = False) -> None:
    """Writes and closes. An OSError, such as that of a full disk, names the file."""
    try:
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(descriptor, view) :]
            if sync:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        error.filename = path
        raise
