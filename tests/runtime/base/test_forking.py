"""A process forked at any moment can load kernels: it finds no lock held."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tilewright import context as contexts
from tilewright.base import forking
from tilewright.base.forking import fork_safe_lock
from tilewright.context import Context
from tilewright.libraries.registry import Registry

BOUND = 500  # seconds that no load reaches
_FORKED, _DECIDED = threading.Event(), threading.Event()  # decided: forked, or waits for a lock


def _forked() -> None:
    _FORKED.set()
    _DECIDED.set()


os.register_at_fork(after_in_parent=_forked)


@pytest.fixture(autouse=True)
def busy_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fork that finds a lock held says so."""
    real = forking._acquire_until_busy

    def acquire(locks):
        busy = real(locks)
        if busy is not None:
            _DECIDED.set()
        return busy

    monkeypatch.setattr(forking, "_acquire_until_busy", acquire)


def forked(work: Callable[[], object]) -> int:
    """Runs `work` in a forked process: 0 where it ends, else what ended the process."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(200)  # a deadlock ends so; the work takes milliseconds
    try:
        work()
    except BaseException:  # the tests' own clean-up is not this process's
        os._exit(1)
    os._exit(0)


def fork_while(busy: Callable[[Callable[[], None]], object], work: Callable[[], object]) -> int:
    """Forks while another thread is in `busy`, in what that is given to call; what `work` then ends with."""
    _FORKED.clear()
    _DECIDED.clear()
    inside, end = threading.Event(), threading.Event()

    def linger() -> None:
        inside.set()
        assert end.wait(BOUND)

    with ThreadPoolExecutor(2) as threads:
        held = threads.submit(busy, linger)
        held.add_done_callback(lambda _: inside.set())  # it has failed before it lingers
        try:
            assert inside.wait(BOUND)
            assert not held.done(), held.exception()
            child = threads.submit(forked, work)
            assert _DECIDED.wait(BOUND)
            assert not _FORKED.is_set(), "forked while a lock was held"
        finally:
            end.set()
        held.result(BOUND)
        return child.result(BOUND)


@pytest.fixture
def slow(host_library: Path, host_generated: Path, built) -> tuple[Registry, list[Callable[[], None]]]:
    """A registry, and what it calls while it looks for libraries, with its lock held."""
    calls: list[Callable[[], None]] = []

    def libraries(module: str):
        while calls:
            calls.pop()()
        return [built(host_library)]

    return Registry(host_generated, libraries=libraries), calls


def load(registry: Registry) -> None:
    assert registry.library(registry.record("host_bf16_tn")).kernels


def test_a_fork_during_a_load(slow) -> None:
    registry, calls = slow

    def busy(linger: Callable[[], None]) -> None:
        calls.append(linger)
        load(registry)

    def work() -> None:
        load(registry)
        registry.refresh()
        load(registry)

    assert fork_while(busy, work) == 0
    load(registry)  # and here


def test_a_fork_while_a_kernel_is_built(
    host_library: Path, host_generated: Path, monkeypatch: pytest.MonkeyPatch, built
) -> None:
    """It waits for no compiler; the child builds for itself."""
    monkeypatch.delenv("TILEWRIGHT_JIT", raising=False)
    parent = os.getpid()
    listing: list[object] = []
    inside, end = threading.Event(), threading.Event()

    def build(table, kernel: str) -> None:
        if os.getpid() == parent:
            inside.set()
            assert end.wait(BOUND)
        listing.append(built(host_library))

    registry = Registry(host_generated, libraries=lambda module: listing, build=build)
    with ThreadPoolExecutor(1) as threads:
        held = threads.submit(load, registry)
        try:
            assert inside.wait(BOUND)
            assert forked(lambda: load(registry)) == 0
        finally:
            end.set()
        held.result(BOUND)


def test_a_fork_while_a_context_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contexts._state, "current", None)
    real = Context.__init__

    def busy(linger: Callable[[], None]) -> None:
        def slowly(self: Context, *arguments: Any, **settings: Any) -> None:
            linger()
            real(self, *arguments, **settings)

        monkeypatch.setattr(Context, "__init__", slowly)
        contexts.current()

    assert fork_while(busy, contexts.current) == 0


def test_a_fork_waits_for_a_thread_that_takes_one_lock_after_another() -> None:
    """In whichever order: a fork that held the one and waited for the other would wait for ever."""
    for swap in (False, True):
        first, second = fork_safe_lock(), fork_safe_lock()
        if swap:
            first, second = second, first

        def busy(linger: Callable[[], None], first=first, second=second) -> None:
            with first:
                linger()
                with second:
                    pass

        def work(first=first, second=second) -> None:
            with first, second:
                pass

        assert fork_while(busy, work) == 0


def test_who_holds_a_lock_may_fork() -> None:
    lock = fork_safe_lock()

    def work() -> None:
        lock.release()
        with ThreadPoolExecutor(1) as threads:  # free for others, too
            assert threads.submit(lock.acquire, timeout=BOUND).result()

    with lock:
        assert forked(work) == 0
    assert not forking._held


def test_locks_that_are_gone_are_forgotten() -> None:
    """Others may go at any moment: garbage of other tests is collected."""
    lock = fork_safe_lock()
    (reference,) = (weak_lock for weak_lock in [*forking._kept] if weak_lock() is lock)
    del lock
    assert reference not in [*forking._kept]
