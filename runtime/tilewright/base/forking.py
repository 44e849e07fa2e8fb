"""Locks that are free in a forked process.

A fork copies a lock in its state, but not the thread that holds it, so the child would wait for ever. A fork
therefore waits until these locks are free. So it also never copies guarded data in the middle of a change,
such as a library that is half loaded.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from _thread import RLock

# Changed in atomic steps, without a lock: a thread that makes a lock may hold another one, for which a fork
# waits.
_kept: list[weakref.ref[RLock]] = []
_forking = threading.RLock()  # held while a fork is under way
_held: list[RLock] = []  # held by the thread that forks, while the fork is under way


def fork_safe_lock() -> RLock:
    """A lock for a thread to hold for a short while: a fork waits for it.

    It is reentrant, so a thread that holds it may fork.
    """
    lock = threading.RLock()
    _kept.append(weakref.ref(lock, _kept.remove))
    return lock


def _acquire_all() -> None:
    """Takes every lock. It holds none while it waits for a busy lock, whose holder may wait for another
    one."""
    _forking.acquire()
    locks = [lock for lock in (reference() for reference in list(_kept)) if lock is not None]
    while (busy := _acquire_until_busy(locks)) is not None:
        with busy:
            pass


def _acquire_until_busy(locks: list[RLock]) -> RLock | None:
    """Takes all of the locks and returns None, or takes none and returns one that another thread holds."""
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
