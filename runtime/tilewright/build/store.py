"""The build cache on disk.

    objects/<key>/{kernel.o, report.json, log.txt}   one compiled unit, complete or not there
    libraries/<module>/<key>/{<module>.so, library.json}
    locks/  tmp/  work/  logs/  quarantine/  digests/

An entry is made in tmp/ and moved into place whole; nothing is ever changed afterwards. An entry that does
not hold what its report says (a disk that filled up, a cut file) is moved to quarantine/ and built again.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright import paths
from tilewright.build.keys import KEY_FORMAT, file_sha256
from tilewright.errors import StoreError

_STALE_SECONDS = 24 * 3600
_QUARANTINED = 20  # entries kept for whoever wants to know


@dataclass(frozen=True)
class Entry:
    """A complete compiled unit."""

    key: str
    folder: Path
    report: dict[str, Any]

    @property
    def object(self) -> Path:
        return self.folder / "kernel.o"


class Store:
    """A cache folder; it is created when something is written to it."""

    def __init__(self, root: Path | None = None) -> None:
        self.root = (paths.cache_dir() if root is None else root).absolute()

    def folder(self, name: str) -> Path:
        """A subfolder, created. Raises StoreError where that is not possible."""
        path = self.root / name
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise self.failure(error) from None
        return path

    def entry(self, key: str) -> Entry | None:
        """The entry of `key`, checked against its report; None where there is none."""
        folder = self.root / "objects" / key
        try:
            report = json.loads((folder / "report.json").read_bytes())
            stated = report["object"]
            whole = (
                report["format"] == KEY_FORMAT
                and report["key"] == key
                and (folder / "kernel.o").stat().st_size == stated["bytes"]
                and file_sha256(folder / "kernel.o") == stated["sha256"]
            )
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return Entry(key, folder, report) if whole else None

    def commit(self, draft: Path, target: Path) -> None:
        """Moves a finished folder into place; a reader sees all of it or nothing.

        The caller holds the lock of the target. What stands there is broken and is set aside first.
        """
        try:
            for file in draft.iterdir():
                _sync(file)
            target.parent.mkdir(parents=True, exist_ok=True)
            if target.exists():
                self.quarantine(target)
            draft.rename(target)
            _sync(target.parent)
        except OSError as error:
            raise self.failure(error) from None

    def quarantine(self, folder: Path) -> None:
        """Sets a broken entry aside."""
        yard = self.folder("quarantine")
        with suppress(FileNotFoundError):  # another process was faster
            folder.rename(yard / f"{time.time_ns()}-{folder.name}")
        for old in sorted(yard.iterdir())[:-_QUARANTINED]:
            shutil.rmtree(old, ignore_errors=True)

    def draft(self, key: str) -> Path:
        """A fresh folder below tmp/. The caller holds the lock of `key`, so older drafts of it are debris."""
        for debris in self.folder("tmp").glob(f"{key}.*"):
            shutil.rmtree(debris, ignore_errors=True)
        path = self.root / "tmp" / f"{key}.{uuid.uuid4().hex[:12]}"
        try:
            path.mkdir()
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
        """Removes what killed builds left behind long ago."""
        limit = time.time() - _STALE_SECONDS
        for name in ("tmp", "work"):
            for path in (self.root / name).glob("*"):
                with suppress(OSError):
                    if path.stat().st_mtime < limit:
                        shutil.rmtree(path, ignore_errors=True)

    def failure(self, error: OSError) -> StoreError:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            return StoreError(
                f"no space left for the build cache in {self.root}",
                hint="Free some, or set TILEWRIGHT_CACHE to a folder on another disk.",
            )
        return StoreError(
            f"the build cache in {self.root}: {error}",
            hint="Set TILEWRIGHT_CACHE to a folder that can be written.",
        )


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
