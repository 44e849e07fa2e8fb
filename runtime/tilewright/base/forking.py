"""Locks that no forked process finds held.

A fork copies a lock as it is, and not the thread that holds it: the child would wait for ever. So a fork
waits until these locks are free. Nor is what they guard, a library half loaded, ever copied halfway then.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _thread import RLock

# Changed in single steps, without a lock: who makes a lock may hold another one, and a fork waits for that.
_kept: list[weakref.ref[RLock]] = []
_forking = threading.RLock()  # held while a fork is under way
_held: list[RLock] = []  # by the thread that forks, from before until after


def fork_safe_lock() -> RLock:
    """A lock for a thread to hold for a short while: a fork waits for it.

    It is reentrant, so a thread that holds it may fork.
    """
    lock = threading.RLock()
    _kept.append(weakref.ref(lock, _kept.remove))
    return lock


def _acquire_all() -> None:
    """Takes every lock. While one is not to be had it holds none: who has it may be waiting for another."""
    _forking.acquire()
    locks = [lock for lock in (reference() for reference in list(_kept)) if lock is not None]
    while (busy := _acquire_until_busy(locks)) is not None:
        with busy:
            pass


def _acquire_until_busy(locks: list[RLock]) -> RLock | None:
    """Takes the locks, or none of them and answers one that another thread holds."""
    for lock in locks:
        if not lock.acquire(blocking=False):
            _release_held()
            return lock
        _held.append(lock)
    return None


def _release_held() -> None:
    while _held:
        _held.pop().release()


def _release_all() -> None:
    _release_held()
    _forking.release()


os.register_at_fork(before=_acquire_all, after_in_parent=_release_all, after_in_child=_release_all)
