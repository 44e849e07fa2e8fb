"""Spreads work that is pure Python over the processors."""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

_MOST = 16
_PIPE_BYTES = 1 << 20  # a worker is this far ahead of the reader at most; Linux allows no more by default


def processors() -> int:
    """The number of processes that may work at a time: 1 if forking is unsafe (macOS) or impossible."""
    return min(len(os.sched_getaffinity(0)), _MOST) if sys.platform == "linux" else 1


def ordered_map(function: Callable[[Item], Result], items: Sequence[Item], workers: int) -> Iterator[Result]:
    """`map(function, items)`, computed by forked processes if there are several items and workers.

    The workers inherit `function` and `items`; only results are pickled. An item that fails in a worker is
    computed again in this process, so that its exception has its traceback.
    """
    workers = min(workers, len(items))
    if workers < 2:
        yield from map(function, items)
        return
    with ExitStack() as stack:
        pipes = []
        for worker in range(workers):
            process, descriptor = _fork(function, items[worker::workers])
            stack.callback(os.waitpid, process, 0)
            pipes.append(stack.enter_context(open(descriptor, "rb")))  # noqa: PTH123 - a descriptor
        for index, item in enumerate(items):
            try:
                yield pickle.load(pipes[index % workers])
            except (EOFError, pickle.UnpicklingError):
                yield function(item)


def _fork(function: Callable[[Item], Result], items: Sequence[Item]) -> tuple[int, int]:
    """Start a worker. Answers its process, and a descriptor on which its results come, pickled."""
    import fcntl  # noqa: PLC0415 - Windows has none, and never comes here

    readable, writable = os.pipe()
    fcntl.fcntl(writable, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    process = os.fork()
    if process:
        os.close(writable)
        return process, readable
    try:
        os.close(readable)
        with open(writable, "wb", buffering=1 << 20) as pipe:  # noqa: PTH123 - a descriptor
            for item in items:
                pickle.dump(function(item), pipe, pickle.HIGHEST_PROTOCOL)
    finally:
        os._exit(0)  # without the clean-up that is the parent's to do; the parent sees what is missing
