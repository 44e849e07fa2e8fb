"""Engines that run shards of work: in processes of this machine (`Local`), or as tasks of Ray (`ray_engine`).

The function of a shard is a generator at the top level of a module, so that another process finds it by its
name. It yields each answer at once. If a process ends before it has answered a whole shard, the caller
decides about the rest.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import pickle
import signal
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import connection
from typing import Any, NamedTuple, Protocol, TypeAlias

from tilewright.errors import GpuLostError

Say: TypeAlias = Callable[[str], None]
Function: TypeAlias = Callable[[Any, int, Say], Iterator[Any]]
"""A function of a shard. Its arguments are the shard, the place where it runs (the index of a GPU), and a
function to call when a piece of work begins."""

PATIENCE_SECONDS = 120.0  # a working process that is silent for longer has a kernel that hangs
_POLL_SECONDS = 0.5
_END_SECONDS = 5.0  # seconds that a process has to end after a request


class Answer(NamedTuple):
    """One of those that a function gives of a shard."""

    shard: Any
    value: Any


class Ended(NamedTuple):
    """No more answers of a shard will come."""

    shard: Any
    failure: str | None = None  # why its process has ended; None: the function has returned
    under_way: str | None = None  # the work that the process began last, if it reported one


class Engine(Protocol):
    """Runs functions of shards, several at once. What a function raises is raised by `events`, except for
    GpuLostError: that ends its process, and is why the shard has ended."""

    shard: int
    """Problems that a shard should hold: what beginning one costs decides."""

    def submit(self, function: Function, shard: Any) -> None: ...

    def events(self) -> Iterator[Answer | Ended | None]:
        """Events until no work is left, and None now and then. More shards may be submitted meanwhile."""
        ...

    def close(self) -> None:
        """Ends what is under way."""
        ...


class Local:
    """One process to a place. One that dies, or is silent for `patience` seconds of the clock `now`, is
    replaced."""

    shard = 4  # a worker goes on while the parent writes what it has found

    def __init__(
        self,
        places: Sequence[int],
        patience: float = PATIENCE_SECONDS,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._idle = list(reversed(places))
        self._patience = patience
        self._now = now
        self._workers: dict[int, _Worker] = {}
        self._queue: deque[tuple[Function, Any]] = deque()
        self._busy: dict[int, Any] = {}  # shards by place

    def submit(self, function: Function, shard: Any) -> None:
        self._queue.append((function, shard))

    def events(self) -> Iterator[Answer | Ended | None]:
        while self._queue or self._busy:
            while self._queue and self._idle:
                self._begin(*self._queue.popleft())
            talking = {self._workers[place].connection: place for place in self._busy}
            for ready in connection.wait(list(talking), timeout=_POLL_SECONDS):
                yield from self._hear(talking[ready])  # type: ignore[index]
            for place in list(self._busy):
                if self._now() - self._workers[place].heard > self._patience:
                    yield self._lose(place, f"its process was silent for {self._patience:.0f} s")
            yield None

    def close(self) -> None:
        for worker in self._workers.values():
            worker.end()
        self._workers.clear()

    def _begin(self, function: Function, shard: Any) -> None:
        place = self._idle.pop()
        if place not in self._workers:
            self._workers[place] = _Worker(place, self._now)
        self._busy[place] = shard
        self._workers[place].give(function, shard)

    def _hear(self, place: int) -> Iterator[Answer | Ended]:
        worker, shard = self._workers[place], self._busy[place]
        try:
            kind, value = worker.hear()
        except (EOFError, OSError):
            worker.process.join(_END_SECONDS)
            yield self._lose(place, f"its process ended, exit code {worker.process.exitcode}")
            return
        if kind == "answer":
            yield Answer(shard, value)
        elif kind == "error":
            raise value
        elif kind == "lost":
            yield self._lose(place, value)
        elif kind == "end":
            del self._busy[place]
            self._idle.append(place)
            yield Ended(shard)

    def _lose(self, place: int, failure: str) -> Ended:
        worker = self._workers.pop(place)
        worker.end()
        self._idle.append(place)
        return Ended(self._busy.pop(place), failure, worker.under_way)


class _Worker:
    """A process, as the parent has it. It is spawned: CUDA does not survive a fork."""

    def __init__(self, place: int, now: Callable[[], float]) -> None:
        spawning = multiprocessing.get_context("spawn")
        self.connection, theirs = spawning.Pipe()
        self.process = spawning.Process(target=_serve, args=(theirs, place), daemon=True)
        self.process.start()
        theirs.close()  # so that its end is seen
        self._now = now
        self.heard = now()
        self.under_way: str | None = None

    def give(self, function: Function, shard: Any) -> None:
        self.under_way, self.heard = None, self._now()
        with contextlib.suppress(OSError):  # it is dead: `hear` will say so
            self.connection.send((function, shard))

    def hear(self) -> tuple[str, Any]:
        kind, value = self.connection.recv()
        self.heard = self._now()
        if kind == "begun":
            self.under_way = value
        elif kind == "answer":
            self.under_way = None
        return kind, value

    def end(self) -> None:
        self.connection.close()
        self.process.terminate()
        self.process.join(_END_SECONDS)
        if self.process.is_alive():  # in a call of the driver that does not return
            self.process.kill()
            self.process.join(_END_SECONDS)


def _serve(parent: connection.Connection, place: int) -> None:
    """A worker's life: ends with its parent, whatever ends that."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal interrupts all; the parent ends this one
    while True:
        try:
            function, shard = parent.recv()
        except (EOFError, OSError):
            return
        try:
            try:
                for value in function(shard, place, lambda what: parent.send(("begun", what))):
                    parent.send(("answer", value))
            except GpuLostError as error:
                parent.send(("lost", error.message))
                return
            except BrokenPipeError:
                raise
            except Exception as error:
                parent.send(("error", _portable(error)))
                return
            parent.send(("end", None))
        except BrokenPipeError:
            return


def _portable(error: Exception) -> Exception:
    """The error, or what it says where it does not survive the way to another process."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError("".join(traceback.format_exception(error)))
    return error
