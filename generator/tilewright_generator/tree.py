"""The files of a folder. Links are followed only to read the file that they lead to."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from enum import Enum
from pathlib import Path

from tilewright.base import reading
from tilewright.errors import UnreadableFileError
from tilewright_generator.errors import UsageError


class Kind(Enum):
    """The kind of thing that has a name."""

    FILE = "a file"
    FOLDER = "a folder"
    LINK = "a symbolic link"
    OTHER = "neither a file nor a folder"


class Tree:
    """All files below a folder that are not hidden, at the time when the tree is made."""

    def __init__(self, folder: Path, kinds: Mapping[str, Kind] | None = None) -> None:
        self.folder = folder
        self._kinds: Mapping[str, Kind] = dict(_below(folder)) if kinds is None else kinds

    def kind(self, name: str) -> Kind | None:
        """The kind of `name`, a path from the folder; None if it does not exist."""
        return self._kinds.get(name)

    def names(self) -> list[str]:
        """Everything but folders, sorted."""
        return sorted(name for name, kind in self._kinds.items() if kind is not Kind.FOLDER)

    def read(self, name: str) -> bytes | None:
        """The bytes of a file, or of the file that a link leads to; None if there is none."""
        kind = self._kinds.get(name)
        path = f"{self.folder}/{name}"
        if kind is not Kind.FILE and not (kind is Kind.LINK and Path(path).is_file()):
            return None
        try:
            return reading.contents(path)
        except FileNotFoundError:  # it was there a moment ago
            return None
        except UnreadableFileError as error:
            raise UsageError(f"cannot read {error.message}") from None


def scan(folder: Path) -> dict[str, Kind]:
    """The entries of `folder` itself that are not hidden, by name; none if the folder does not exist."""
    try:
        with os.scandir(folder) as entries:
            return {entry.name: _kind(entry) for entry in entries if not entry.name.startswith(".")}
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise UsageError(f"cannot read the folder {folder}: {error.strerror}") from error


def _below(folder: Path, above: str = "") -> Iterator[tuple[str, Kind]]:
    for name, kind in scan(folder).items():
        yield above + name, kind
        if kind is Kind.FOLDER:
            yield from _below(folder / name, f"{above}{name}/")


def _kind(entry: os.DirEntry[str]) -> Kind:
    if entry.is_symlink():
        return Kind.LINK
    if entry.is_dir(follow_symlinks=False):
        return Kind.FOLDER
    return Kind.FILE if entry.is_file(follow_symlinks=False) else Kind.OTHER
