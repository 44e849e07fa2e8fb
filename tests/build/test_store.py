"""What processes share of a store: places for compilers."""

from __future__ import annotations

import filelock
import pytest

from tilewright.compile.store import Store


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
