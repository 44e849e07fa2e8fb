"""Finds what nothing needs any more in the build cache."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from tilewright.compile import marker
from tilewright.compile.library import libraries
from tilewright.compile.store import Store


class Debris(NamedTuple):
    """Something to remove: why, and how many bytes of disk it takes."""

    path: Path
    why: str
    bytes: int


def debris(store: Store, include: Path, older_than: float) -> list[Debris]:
    """Lists what is older than `older_than` seconds and no library in force needs; changes nothing.

    A library is in force while `libraries` lists it, whatever its project is. It needs the objects that it
    was linked from, because adding a kernel links it again. A file whose name is not of our form is
    not ours, and not listed. Raises CacheRefusedError if the folder is not a cache of ours.
    """
    marker.check(store.root)
    limit = time.time() - older_than
    return [
        Debris(path, why, store.size(path)) for path, why in _unneeded(store, include) if _made(path) < limit
    ]


def remove(store: Store, debris: list[Debris]) -> None:
    """Removes the debris, and what killed builds and removals have left. What another process has loaded
    stays mapped there."""
    store.sweep()
    for item in debris:
        store.remove(item.path)


def _unneeded(store: Store, include: Path) -> Iterator[tuple[Path, str]]:
    folders = store.listed("libraries")
    modules = sorted({path.parent.name for path in folders})
    in_force = [library for module in modules for library in libraries(module, store=store, include=include)]
    kept = {library.path.parent for library in in_force}
    yield from ((path, "a library that is not in force") for path in folders if path not in kept)
    needed = {kernel.get("object") for library in in_force for kernel in library.kernels.values()}
    needed |= {library.table for library in in_force}
    objects = store.listed("objects")
    yield from ((path, "an object of no library in force") for path in objects if path.name not in needed)
    yield from ((path, "set aside as damaged") for path in store.listed("quarantine"))
    yield from ((path, "a kernel that did not compile") for path in store.listed("refusals"))
    yield from ((path, "the log of a failed compile") for path in store.listed("logs"))


def _made(path: Path) -> float:
    """When the entry was written; for a library, when a build last asked for it."""
    stamps = []
    for file in (path, path / "library.json", path / "report.json"):
        with suppress(OSError):  # it has none, or another process has removed it
            stamps.append(file.stat().st_mtime)
    return max(stamps, default=time.time())
