"""Shards as tasks of Ray: for more than one machine. An optional extra: `pip install 'tilewright[ray]'`.

A task runs the same functions as a process of `engine.Local`. Ray gives it a GPU, or cores, wherever they are
free; every machine needs this package at the same release, and the project and the cache at the same paths
(a shared file system), as Ray itself wants of the code that it runs.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Any

from tilewright.errors import GpuLostError, TilewrightError
from tilewright.tools.sharding.engine import Answer, Ended, Function

if TYPE_CHECKING:
    from tilewright.architectures.device import DeviceProperties

_POLL_SECONDS = 0.5
_GPU_SECONDS = 300.0  # that the first task waits for a GPU, including the start of its process


class RayMissingError(TilewrightError):
    """Ray is not installed, or there is no cluster at the address."""

    exit_code = 2


class RayEngine:
    """An `Engine` over a cluster. A task's process serves one shard: what it did to a GPU ends with it.

    A task has `gpus` GPUs and `cpus` cores of its own. Ray moves no work: an address that is not a cluster's
    is an error, and none at all starts one on this machine.

    A task that is at work and silent for more than `patience` seconds of the clock `now` is ended, where that
    is given; one that waits for a GPU may wait.
    """

    shard = 16  # problems: starting a process (torch, a CUDA context) takes seconds

    def __init__(
        self,
        ray: Any,
        *,
        gpus: float = 1,
        cpus: float = 1,
        patience: float | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ray = ray
        self._now = now
        self._patience = inf if patience is None else patience
        # With max_calls a process ends after its task, whatever became of its CUDA context. Ray tries nothing
        # again: who submits a shard knows what to leave out. A task goes on when what it has yielded is
        # taken: whatever then becomes of its process, what it had begun is known.
        self._task = ray.remote(
            num_gpus=gpus,
            num_cpus=cpus,
            max_calls=1,
            max_retries=0,
            num_returns="streaming",
            _generator_backpressure_num_objects=1,
        )(_run)
        self._under_way: dict[Any, _Task] = {}  # by the generator of what they say

    def gpus(self) -> float:
        """The number of GPUs of the cluster."""
        return float(self._ray.cluster_resources().get("GPU", 0))

    def submit(self, function: Function, shard: Any) -> None:
        self._under_way[self._task.remote(function, shard)] = _Task(shard)

    def events(self) -> Iterator[Answer | Ended | None]:
        while self._under_way:
            for generator in self._ready(list(self._under_way), _POLL_SECONDS):
                yield self._take(generator)
            for generator, task in list(self._under_way.items()):
                silent = task.heard is not None and self._now() - task.heard > self._patience
                if silent and not self._ready([generator]):  # else who takes the events was away
                    yield self._lose(generator)
            yield None

    def close(self) -> None:
        for generator in self._under_way:
            self._ray.cancel(generator, force=True)
        self._under_way.clear()

    def _ready(self, generators: list[Any], timeout: float = 0) -> list[Any]:
        ready: list[Any] = self._ray.wait(generators, num_returns=1, timeout=timeout)[0]
        return ready

    def _take(self, generator: Any) -> Answer | Ended | None:
        exceptions = self._ray.exceptions
        task = self._under_way.pop(generator)
        try:
            kind, value = self._ray.get(next(generator))
        except StopIteration:
            return Ended(task.shard)
        except exceptions.RayTaskError as error:
            cause = error.cause
            if isinstance(cause, GpuLostError):
                return Ended(task.shard, cause.message, task.under_way)
            if isinstance(cause, TilewrightError):
                raise cause from None
            raise
        except exceptions.RayError as error:  # its process, or its machine, is no more
            return Ended(task.shard, str(error).strip().partition("\n")[0], task.under_way)
        self._under_way[generator] = task  # as the last, so that each has its turn
        task.heard = self._now()
        task.under_way = value if kind == "begun" else None
        return Answer(task.shard, value) if kind == "answer" else None

    def _lose(self, generator: Any) -> Ended:
        self._ray.cancel(generator, force=True)
        task = self._under_way.pop(generator)
        return Ended(task.shard, f"its process was silent for {self._patience:.0f} s", task.under_way)


@dataclass(slots=True)
class _Task:
    """One that is submitted, as who submits it has it."""

    shard: Any
    heard: float | None = None  # when; None: Ray has no place for it yet
    under_way: str | None = None


def _run(function: Function, shard: Any) -> Iterator[tuple[str, Any]]:
    """The task of a shard. Ray shows it one GPU, as the first.

    A function reports messages in the middle of a step, where a generator cannot yield. So it runs in a
    thread, which waits until each message has been sent.
    """
    messages: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
    gone = threading.Semaphore(0)

    def tell(kind: str, value: Any) -> None:
        messages.put((kind, value))
        gone.acquire()

    def work() -> None:
        try:
            for value in function(shard, 0, lambda what: tell("begun", what)):
                tell("answer", value)
        except BaseException as error:
            messages.put(("error", error))
        else:
            messages.put(("end", None))

    yield "begun", None  # it has a place: from now on it is at work
    threading.Thread(target=work, daemon=True).start()
    while True:
        kind, value = messages.get()
        if kind == "end":
            return
        if kind == "error":
            raise value
        yield kind, value
        gone.release()


def connect(
    address: str | None,
    *,
    gpus: float = 1,
    cpus: float = 1,
    patience: float | None = None,
    now: Callable[[], float] = time.monotonic,
) -> RayEngine:
    """An engine over the cluster at `address`, over the one that RAY_ADDRESS names, or over one that is
    started on this machine. Raises RayMissingError."""
    try:
        import ray  # noqa: PLC0415 (an optional extra)
    except ImportError:
        raise RayMissingError(
            "Ray is not installed", hint="Install it with: pip install 'tilewright[ray]'"
        ) from None
    if not ray.is_initialized():
        try:
            ray.init(address=address, log_to_driver=False, configure_logging=False)
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise RayMissingError(f"there is no Ray cluster at {address}: {error}") from None
    return RayEngine(ray, gpus=gpus, cpus=cpus, patience=patience, now=now)


def gpu(engine: RayEngine) -> tuple[DeviceProperties, str | None]:
    """A GPU of the cluster and its driver, from a task that runs there. Raises RayMissingError.

    Nothing may be under way in the engine, and nothing is afterwards: the next user of its events knows
    only shards of its own.
    """
    if not engine.gpus():
        raise RayMissingError("the Ray cluster has no GPU")
    engine.submit(_describe, None)
    described: tuple[DeviceProperties, str | None] | None = None
    deadline = time.monotonic() + _GPU_SECONDS
    for event in engine.events():
        if isinstance(event, Answer):
            described = event.value
        elif isinstance(event, Ended) and described is None:
            raise RayMissingError(f"no GPU of the cluster answers: {event.failure or 'nothing came'}")
        elif time.monotonic() > deadline:
            engine.close()
    if described is None:
        raise RayMissingError(f"no GPU of the cluster was free for {_GPU_SECONDS:.0f} s")
    return described


def _describe(shard: None, place: int, say: Any) -> Iterator[tuple[DeviceProperties, str | None]]:
    from tilewright.architectures import device  # noqa: PLC0415

    yield device.read(place), device.driver()
