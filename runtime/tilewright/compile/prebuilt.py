"""Libraries that were built elsewhere: in installed packages, and in folders of TILEWRIGHT_LIBRARIES.

Such a folder holds `libraries/<module>/<key>/{<module>.so, library.json}`, as a build cache does. Nothing is
ever written there. A library is used only if it was built for this machine, of the headers that this
tilewright has; a kernel of it only if its source and flags are those that the table lists. So it does not
matter which version the library was built with, only whether it is what a build here would make.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tilewright.base import paths, sets
from tilewright.compile import library
from tilewright.compile.keys import HeaderSet
from tilewright.compile.library import LibraryRecord
from tilewright.declarations.table import Table
from tilewright.errors import BuildError


class Prebuilt(NamedTuple):
    """A library in a folder of built libraries."""

    module: str
    folder: Path  # that holds `libraries/`
    path: Path  # of the library.json
    record: LibraryRecord | None  # None if the library cannot be used here
    reason: str = ""  # why not

    def lacking(self, table: Table) -> list[str]:
        """The kernels of the library that the table lists with another source or other flags."""
        if self.record is None:
            return []
        kernels = self.record.kernels
        return [name for name in kernels if name in table and not self.record.holds(table[name])]


def all_libraries(module: str) -> list[LibraryRecord]:
    """The module's libraries that can be loaded: those of the cache, the newest first, then prebuilt ones in
    the order of their folders."""
    headers = HeaderSet(paths.include_dir())
    return [*library.libraries(module, headers=headers), *usable(module, headers)]


def only(folder: Path) -> library.Finder:
    """A finder for `Registry(libraries=...)`, which finds the libraries of one folder, and no cache."""
    headers = HeaderSet(paths.include_dir())
    return lambda module: usable(module, headers, [folder.absolute()])


def usable(module: str, headers: HeaderSet, folders: Sequence[Path] | None = None) -> list[LibraryRecord]:
    """The module's prebuilt libraries that can be loaded here."""
    listed = examined(module, headers, folders)
    return [prebuilt.record for prebuilt in listed if prebuilt.record is not None]


def examined(module: str, headers: HeaderSet, folders: Sequence[Path] | None = None) -> Iterator[Prebuilt]:
    """The module's libraries in the folders (default: `sets.library_folders()`), with the reason for each
    that cannot be used."""
    for folder in sets.library_folders() if folders is None else folders:
        for path in library.described_in(folder, module):
            try:
                record, reason = library.judged(path, module, headers)
            except FileNotFoundError:
                continue
            except BuildError as error:
                record, reason = None, error.message
            yield Prebuilt(module, folder, path, record, reason)


def modules(folder: Path) -> list[str]:
    """The modules of which a folder holds libraries."""
    return sorted({path.parents[1].name for path in (folder / "libraries").glob("*/*/library.json")})


def reasons(module: str) -> list[str]:
    """Why prebuilt libraries of a module cannot be used here."""
    headers = HeaderSet(paths.include_dir())
    listed = examined(module, headers)
    return [f"{prebuilt.path.parent}: {prebuilt.reason}" for prebuilt in listed if prebuilt.record is None]
