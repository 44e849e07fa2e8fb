"""The build cache on disk.

    CACHEDIR.TAG                                     says that the folder is ours (marker.py)
    objects/<key>/{kernel.o, report.json, log.txt}   one compiled unit, complete or not there
    libraries/<module>/<key>/{<module>.so, library.json}
    locks/  tmp/  work/  logs/  quarantine/  refusals/  digests/

Nothing is written to a folder without that tag, and nothing is removed whose name is not of our form.

An entry is made in tmp/ and moved into place whole; nothing is ever changed afterwards. An entry that does
not hold what its report says (a disk that filled up, a cut file) is moved to quarantine/ and built again.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from tilewright.base import paths, reading
from tilewright.compile import disk, marker, names, trust
from tilewright.compile.keys import KEY_FORMAT, file_sha256
from tilewright.errors import BuildError, CacheRefusedError, StoreError, UnreadableFileError

log = logging.getLogger("tilewright")

_MODE = 0o755  # of folders: where the umask lets a group write, the cache would be refused (trust.py)
_OTHERS_WRITE = 0o022
_STALE_SECONDS = 24 * 3600
_QUARANTINED = 20  # damaged entries that are kept for inspection


class Entry(NamedTuple):
    """A complete compiled unit."""

    key: str
    folder: Path
    report: dict[str, Any]

    @property
    def object(self) -> Path:
        return self.folder / "kernel.o"


class Store:
    """A cache folder. It is created and marked as ours when something is first written to it."""

    def __init__(self, root: Path | None = None) -> None:
        self.root = (paths.cache_dir() if root is None else root).absolute()
        self._claimed = False

    def folder(self, name: str) -> Path:
        """Creates a subfolder and returns its path. Raises StoreError if that fails, CacheRefusedError if the
        cache's folder is not ours."""
        path = self.root / name
        self._claim()
        try:
            path.mkdir(_MODE, exist_ok=True)
        except OSError as error:
            raise self.failure(error) from None
        trust.check(path, self.root)
        return path

    def _claim(self) -> None:
        """Creates the folder, and marks it before anything else is written to it. Raises as `folder`."""
        if self._claimed:
            return
        self.check()
        try:
            self.root.mkdir(_MODE, parents=True, exist_ok=True)
            if not marker.is_marked(self.root):
                marker.mark(self.root)
        except OSError as error:
            raise self.failure(error) from None
        self._claimed = True

    def check(self) -> None:
        """Raises CacheRefusedError if the folder exists and is not ours. Changes nothing."""
        marker.check(self.root)
        trust.check(self.root, self.root)

    @property
    def memory(self) -> Path:
        """The folder with remembered digests. They can be read even if the cache cannot be written.

        Raises CacheRefusedError if the cache's folder is not ours.
        """
        try:
            return self.folder("digests")
        except CacheRefusedError:
            raise
        except StoreError:
            return self.root / "digests"

    def entry(self, key: str) -> Entry | None:
        """The entry of `key`, checked against its report; None if the store has none.

        A damaged entry counts as none, and a warning says what is wrong with it. The build that replaces it
        sets it aside.
        """
        folder = self.root / "objects" / key
        if not folder.exists():
            return None
        try:
            return self.read_entry(key)
        except BuildError as error:
            log.warning("a damaged entry of the build cache counts as none: %s", error.message)
            return None

    def read_entry(self, key: str) -> Entry:
        """The entry of `key`. Raises BuildError if there is no complete entry, CacheRefusedError if other
        users could have written it."""
        from tilewright.compile import schemas  # noqa: PLC0415 (looking for libraries needs none)

        folder = self.root / "objects" / key
        trust.check(folder / "kernel.o", self.root)
        try:
            report = reading.load_json(folder / "report.json", schemas.ANY_FORMAT)
            if report["format"] != KEY_FORMAT or report.get("key") != key:
                raise BuildError(f"{folder} holds the entry of another key or format")
            kind = report.get("kind")
            reading.check(
                folder / "report.json", report, schemas.ENTRIES["table" if kind == "table" else "kernel"]
            )
            if (folder / "kernel.o").stat().st_size != report["object"]["bytes"]:
                raise BuildError(f"{folder}/kernel.o is not as long as its report says")
            if file_sha256(folder / "kernel.o") != report["object"]["sha256"]:
                raise BuildError(f"{folder}/kernel.o is not what its report says")
        except UnreadableFileError as error:
            raise BuildError(f"{folder} is not readable: {error.reason}") from None
        except OSError as error:
            raise BuildError(f"{folder} is not readable: {error}") from None
        return Entry(key, folder, report)

    def commit(self, draft: Path, target: Path) -> None:
        """Moves a finished folder into place. A reader sees the whole folder or nothing.

        The caller holds the lock of the target. If the target exists, it is broken, and is set aside first.
        """
        try:
            for file in draft.iterdir():
                file.chmod(file.stat().st_mode & ~_OTHERS_WRITE)  # the compilers go by the umask
                _sync(file)
            self.folder(target.relative_to(self.root).parts[0])
            target.parent.mkdir(_MODE, exist_ok=True)
            if target.exists():
                self.quarantine(target)
            draft.rename(target)
            _sync(target.parent)
        except OSError as error:
            raise self.failure(error) from None

    def quarantine(self, folder: Path) -> Path:
        """Sets a broken entry or library aside, and returns its new path."""
        yard = self.folder("quarantine")
        target = yard / f"{time.time_ns()}-{folder.name}"
        try:
            with suppress(FileNotFoundError):  # another process was faster
                folder.rename(target)
        except OSError as error:
            raise self.failure(error) from None
        for old in self.listed("quarantine")[:-_QUARANTINED]:
            _remove_all(old)
        return target

    def listed(self, name: str) -> list[Path]:
        """The paths in a subfolder whose names have our form, sorted. For "libraries": the libraries of all
        modules."""
        pattern = "*/*" if name == "libraries" else "*"
        paths_below = (self.root / name).glob(pattern)
        return sorted(path for path in paths_below if names.has_our_name(path, name))

    def remove(self, path: Path) -> None:
        """Removes a path that `listed` returns. A reader sees the whole entry or library, or nothing."""
        debris = self.folder("tmp") / names.unused("removed-")
        with suppress(OSError):  # another process was faster, or the cache cannot be written
            path.rename(debris)
        _remove_all(debris)

    def draft(self, key: str) -> Path:
        """Creates a folder below tmp/. The caller holds the lock of `key`, so older drafts are left over from
        killed builds."""
        tmp = self.folder("tmp")
        for debris in self.listed("tmp"):
            if debris.name.startswith(f"{key}."):
                _remove_all(debris)
        path = tmp / names.unused(f"{key}.")
        try:
            path.mkdir(_MODE)
        except OSError as error:
            raise self.failure(error) from None
        return path

    @contextmanager
    def lock(self, name: str) -> Iterator[None]:
        """Holds an exclusive lock between processes; the system frees it when its holder dies."""
        import filelock  # noqa: PLC0415 (60 ms, and reading the store needs no lock)

        try:
            with filelock.FileLock(self.folder("locks") / f"{name}.lock"):
                yield
        except OSError as error:
            raise self.failure(error) from None

    @contextmanager
    def slot(self, count: int) -> Iterator[None]:
        """Holds one of `count` places, shared by all processes that use this store.

        Several builds at once then stay within the memory that one of them was allowed.
        """
        import filelock  # noqa: PLC0415 (as in `lock`)

        locks = [filelock.FileLock(self.folder("locks") / f"slot-{index}.lock") for index in range(count)]
        while True:
            for lock in locks:
                try:
                    lock.acquire(blocking=False)
                except filelock.Timeout:
                    continue
                try:
                    yield
                finally:
                    lock.release()
                return
            time.sleep(0.05)

    def sweep(self) -> None:
        """Removes what builds left behind that were killed long ago, and what was being removed."""
        if not self.root.exists():
            return
        self._claim()
        limit = time.time() - _STALE_SECONDS
        for path in (*self.listed("tmp"), *self.listed("work")):
            with suppress(OSError):
                if path.name.startswith("removed-") or path.lstat().st_mtime < limit:
                    log.info("removing %s, left behind by a build that was killed", path)
                    _remove_all(path)

    def sizes(self) -> dict[str, int]:
        """Bytes on disk by subfolder ("objects", "libraries", ...). Raises CacheRefusedError if the folder is
        not ours."""
        marker.check(self.root)
        return {path.name: self.size(path) for path in sorted(self.root.glob("*")) if path.is_dir()}

    @staticmethod
    def size(path: Path) -> int:
        """Bytes on disk of a file, or of everything below a folder. Another process may remove some of it
        meanwhile."""
        total = 0
        below = (Path(folder, name) for folder, *names in os.walk(path) for name in chain(*names))
        for file in (path, *below):
            with suppress(OSError):
                total += file.stat().st_blocks * 512
        return total

    def failure(self, error: OSError) -> StoreError:
        return disk.failure(self.root, error)


def _remove_all(path: Path) -> None:
    """Removes a file, a link, or a folder with its content, as far as possible."""
    import shutil  # noqa: PLC0415 (1.5 ms, which looking for libraries need not wait)

    with suppress(OSError):  # it is a folder, another process was faster, or it cannot be removed
        path.unlink()
        return
    shutil.rmtree(path, ignore_errors=True)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
