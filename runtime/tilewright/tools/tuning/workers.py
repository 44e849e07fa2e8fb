"""The part of tuning that runs in another process: a shard of problems, on one GPU."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from tilewright import context as contexts
from tilewright.architectures.device import DeviceProperties
from tilewright.context import Context
from tilewright.declarations.tactics import Tactic
from tilewright.errors import GpuLostError, UnsupportedDeviceError
from tilewright.libraries.registry import Registry
from tilewright.selection.families import family_of
from tilewright.selection.family import Family
from tilewright.selection.tuned import Tuned
from tilewright.selection.tuned_files import Entry
from tilewright.tools.sharding.engine import Say
from tilewright.tools.tuning.near import near
from tilewright.tools.tuning.search import Result, search
from tilewright.tools.tuning.stages import Clock, Options
from tilewright.tools.tuning.trials import Timing


class Site(NamedTuple):
    """The context of tuning problems of a family, as the process that tunes them has it."""

    context: Context
    family: Family[Any]
    device: DeviceProperties
    make_clock: Callable[[Any], Clock]


@dataclass(frozen=True)
class GpuSite:
    """Opens the site of a GPU by its index; a process opens it once. Raises UnsupportedDeviceError if the GPU
    is not `device`, because its times would be those of another GPU."""

    folders: tuple[Path, ...]  # of the registry
    family: str
    device: DeviceProperties
    seed: int = 0

    def __call__(self, gpu: int) -> Site:
        import torch  # noqa: PLC0415 (the parent does not need it)

        from tilewright.tools.tuning import clock  # noqa: PLC0415

        torch.cuda.set_device(gpu)
        context = Context(Registry(self.folders))
        device = context.device(gpu)
        if device._replace(clusters=self.device.clusters) != self.device:  # each GPU has its own clusters
            raise UnsupportedDeviceError(f"tuning is for {self.device.name}; this GPU is {device.name}")
        family = family_of(self.family)
        return Site(context, family, device, clock.on_gpu(self.family, device, self.seed))


@dataclass(frozen=True)
class Shard:
    """Problems to tune, one after the other. All of it goes to another process."""

    problems: tuple[Any, ...]
    site: Callable[[int], Site]
    options: Options = field(default_factory=Options)
    excluded: Mapping[Any, tuple[Timing, ...]] = field(default_factory=dict)
    """The tactics that ended a process, with the cause, by problem."""
    incumbents: Mapping[Any, Entry] = field(default_factory=dict)
    """The tuned entries, by problem. Only kernels that an entry has not seen are tried beside it."""


@dataclass(frozen=True)
class Lost:
    """A tactic left the GPU unusable for the process; the problem has no result yet."""

    problem: Any
    tactic: Tactic | None
    message: str


def tune_shard(shard: Shard, gpu: int, say: Say) -> Iterator[Result | Lost]:
    """The result of each problem in turn. Raises GpuLostError after a `Lost`."""
    from tilewright.tools.trying import no_compiling  # noqa: PLC0415 (it imports torch)

    site = _opened(shard.site, gpu)
    tuned = _tuned(site)
    with contexts.use(site.context), no_compiling():
        for problem in shard.problems:
            try:
                incumbent = shard.incumbents.get(problem)
                winners: list[Tactic] = []
                if incumbent is None:
                    context = site.context
                    winners = near(tuned.entries, problem, site.family, context.registry, site.device)
                result = search(
                    site.family,
                    site.context.registry,
                    problem,
                    site.device,
                    make_clock=lambda one: _Telling(site.make_clock(one), say),
                    options=shard.options,
                    excluded=shard.excluded.get(problem, ()),
                    incumbent=incumbent,
                    near=winners,
                )
                if result.tactic is not None and result.seconds is not None:
                    tuned.prefer([Entry(problem, result.tactic, result.seconds, result.seen)])
                yield result
            except GpuLostError as error:
                tactic = None if error.under_way is None else Tactic.parse(error.under_way)
                yield Lost(problem, tactic, error.message)
                raise


_opened = functools.cache(lambda site, gpu: site(gpu))
# With what the process has found itself: each shard goes on from there.
_tuned = functools.cache(lambda site: Tuned(site.family, site.context.registry, site.device))


class _Telling:
    """A clock that says which tactic it is about to run: the process may not live to say it later."""

    def __init__(self, clock: Clock, say: Say) -> None:
        self._clock = clock
        self._say = say

    def quick(self, tactic: Tactic, limit: float) -> float:
        self._say(str(tactic))
        return self._clock.quick(tactic, limit)

    def again(self, tactic: Tactic) -> float:
        self._say(str(tactic))
        return self._clock.again(tactic)

    def peer(self) -> float | None:
        return self._clock.peer()

    def verify(self, tactic: Tactic) -> None:
        self._say(str(tactic))
        self._clock.verify(tactic)
