"""Shards as tasks of Ray: for more than one machine. An optional extra: `pip install 'tilewright[ray]'`.

A task runs the same functions as a process of `engine.Local`. Ray gives it a GPU, or cores, wherever they are
free; every machine needs this package at the same release, and the project and the cache at the same paths
(a shared file system), as Ray itself wants of the code that it runs.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tilewright.errors import GpuLostError, TilewrightError
from tilewright.tuning.engine import Answer, Ended, Function

if TYPE_CHECKING:
    from tilewright.device import DeviceProperties

_POLL_SECONDS = 0.5
_GPU_SECONDS = 300.0  # that a first task waits for a GPU, its process's start included


class RayMissingError(TilewrightError):
    """Ray is not installed, or there is no cluster at the address."""

    exit_code = 2


class RayEngine:
    """An `Engine` over a cluster. A task's process serves one shard: what it did to a GPU ends with it.

    A task has `gpus` GPUs and `cpus` cores of its own. Ray moves no work: an address that is not a cluster's
    is an error, and none at all starts one on this machine.
    """

    shard = 16  # problems: what a process costs (torch, a CUDA context) is seconds

    def __init__(self, ray: Any, *, gpus: float = 1, cpus: float = 1) -> None:
        self._ray = ray
        # With max_calls a process ends after its task, whatever became of its CUDA context. Ray tries nothing
        # again: who submits a shard knows what to leave out.
        self._task = ray.remote(
            num_gpus=gpus, num_cpus=cpus, max_calls=1, max_retries=0, num_returns="streaming"
        )(_run)
        self._under_way: dict[Any, tuple[Any, Any]] = {}  # by the next answer: the generator, its shard

    def gpus(self) -> float:
        """That the cluster has."""
        return float(self._ray.cluster_resources().get("GPU", 0))

    def submit(self, function: Function, shard: Any) -> None:
        self._wait_for(self._task.remote(function, shard), shard)

    def events(self) -> Iterator[Answer | Ended | None]:
        while self._under_way:
            ready, _ = self._ray.wait(list(self._under_way), num_returns=1, timeout=_POLL_SECONDS)
            for one in ready:
                generator, shard = self._under_way.pop(one)
                yield self._take(one, generator, shard)
            yield None

    def close(self) -> None:
        for generator, _ in self._under_way.values():
            self._ray.cancel(generator, force=True)
        self._under_way.clear()

    def _wait_for(self, generator: Any, shard: Any) -> None:
        self._under_way[generator] = (generator, shard)

    def _take(self, ready: Any, generator: Any, shard: Any) -> Answer | Ended:
        exceptions = self._ray.exceptions
        try:
            value = self._ray.get(next(generator))
        except StopIteration:
            return Ended(shard)
        except exceptions.RayTaskError as error:
            cause = error.cause
            if isinstance(cause, GpuLostError):
                return Ended(shard, cause.message)
            if isinstance(cause, TilewrightError):
                raise cause from None
            raise
        except exceptions.RayError as error:  # its process, or its machine, is no more
            return Ended(shard, str(error).strip().partition("\n")[0])
        self._wait_for(generator, shard)
        return Answer(shard, value)


def _run(function: Function, shard: Any) -> Iterator[Any]:
    """The task: Ray shows it one GPU, which is then the first."""
    yield from function(shard, 0, lambda _: None)


def connect(address: str | None, *, gpus: float = 1, cpus: float = 1) -> RayEngine:
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
    return RayEngine(ray, gpus=gpus, cpus=cpus)


def gpu(engine: RayEngine) -> tuple[DeviceProperties, str | None]:
    """What a GPU of the cluster is, and its driver: of a task that asks it. Raises RayMissingError.

    Nothing may be under way in the engine, and nothing is afterwards: whoever takes its events next knows
    only shards of its own.
    """
    if not engine.gpus():
        raise RayMissingError("the Ray cluster has no GPU")
    engine.submit(_describe, None)
    found: tuple[DeviceProperties, str | None] | None = None
    deadline = time.monotonic() + _GPU_SECONDS
    for event in engine.events():
        if isinstance(event, Answer):
            found = event.value
        elif isinstance(event, Ended) and found is None:
            raise RayMissingError(f"no GPU of the cluster answers: {event.failure or 'nothing came'}")
        elif time.monotonic() > deadline:
            engine.close()
    if found is None:
        raise RayMissingError(f"no GPU of the cluster was free for {_GPU_SECONDS:.0f} s")
    return found


def _describe(shard: None, place: int, say: Any) -> Iterator[tuple[DeviceProperties, str | None]]:
    from tilewright import device  # noqa: PLC0415

    yield device.read(place), device.driver()
