"""What processes share of a store: places for compilers, and entries that another one removes."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

import filelock
import pytest

from tilewright.compile.store import Store
from tilewright_generator import cli


def test_a_place_is_let_go_whatever_happens(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not only when Python collects the lock."""
    locks: list[filelock.FileLock] = []

    class Kept(filelock.FileLock):
        def __init__(self, path: object) -> None:
            super().__init__(path)
            locks.append(self)

    monkeypatch.setattr(filelock, "FileLock", Kept)
    with store.slot(1):
        assert [lock.is_locked for lock in locks] == [True]
    assert not any(lock.is_locked for lock in locks)
    with pytest.raises(ZeroDivisionError), store.slot(2):
        raise ZeroDivisionError
    assert not any(lock.is_locked for lock in locks)


def test_no_more_hold_a_place_than_there_are(store: Store) -> None:
    with store.slot(2), store.slot(2):
        free = [filelock.FileLock(store.root / "locks" / f"slot-{index}.lock") for index in range(2)]
        for lock in free:
            with pytest.raises(filelock.Timeout):
                lock.acquire(blocking=False)


def test_the_newest_of_what_was_set_aside_is_kept(store: Store) -> None:
    names = [f"{number:032x}" for number in range(25)]
    for name in names:
        (store.folder("objects") / name).mkdir()
        store.quarantine(store.root / "objects" / name)
    assert [path.name.partition("-")[2] for path in store.listed("quarantine")] == names[-20:]


def test_sizes_are_told_while_another_process_removes_an_entry(
    store: Store, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It has been listed, and is gone when its folder is read."""
    kept, gone = (store.folder("objects") / (digit * 32) for digit in "01")
    for entry in (kept, gone):
        entry.mkdir()
        (entry / "kernel.o").write_bytes(bytes(3 << 20))
    scan = os.scandir

    def scandir(path: str | int) -> Iterator[os.DirEntry[str]]:
        if path == str(gone):
            store.remove(gone)
        return scan(path)

    monkeypatch.setattr(os, "scandir", scandir)
    assert cli.invoke(["cache", "--cache", str(store.root)]) == 0
    assert re.search(r"objects +3\.\d MiB", capsys.readouterr().out)
    assert not gone.exists()
