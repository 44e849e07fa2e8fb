"""Compiling in shards: as tasks of an engine, which may have other machines (`tools.sharding.ray_engine`).

Tasks compile into the shared cache, as any build does. The build that follows links their kernels, and
compiles kernels that they lack.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from tilewright.compile.building import build
from tilewright.compile.planning import Select
from tilewright.compile.store import Store
from tilewright.compile.toolchain import HostToolchain
from tilewright.declarations.table import Table
from tilewright.tools.sharding.engine import Answer, Ended, Engine, Say

KERNELS = 2  # kernels of a task: a kernel takes a minute to compile, and a task seconds to start


@dataclass(frozen=True)
class BuildShard:
    """Kernels of one module, and what to compile them with. Paths are the same on every machine."""

    table: Path
    kernels: tuple[str, ...]
    cache: Path
    toolchain: HostToolchain
    launcher: tuple[str, ...] | None


class Compiled(NamedTuple):
    """The results of a shard's kernels: statuses by name, or the reason why there are none."""

    kernels: tuple[str, ...]
    statuses: dict[str, str]
    failure: str | None = None


def compile_shards(
    engine: Engine,
    tables: Iterable[Table],
    select: Select = None,
    *,
    toolchain: HostToolchain,
    store: Store,
    launcher: Sequence[str] | None = None,
    kernels: int = KERNELS,
) -> Iterator[Compiled]:
    """Compiles what the store lacks of the selected kernels, a few to a task, and tells of each as it comes.

    Raises what a plan of a build raises: NotBuiltError, ToolchainError, StoreError.
    """
    tables = list(tables)
    planned = build(tables, select, toolchain=toolchain, store=store, dry_run=True)
    for table in tables:
        missing = [
            unit.name for unit in planned.units if unit.status == "missing" and unit.module == table.module
        ]
        for first in range(0, len(missing), kernels):
            engine.submit(
                compile_shard,
                BuildShard(
                    table.folder / "table.json",
                    tuple(missing[first : first + kernels]),
                    store.root,
                    toolchain,
                    None if launcher is None else tuple(launcher),
                ),
            )
    for event in engine.events():
        if isinstance(event, Answer):
            yield Compiled(event.shard.kernels, event.value)
        elif isinstance(event, Ended) and event.failure is not None:
            yield Compiled(event.shard.kernels, {}, event.failure)


def compile_shard(shard: BuildShard, place: int, say: Say) -> Iterator[dict[str, str]]:
    """The task: one answer, the statuses of the shard's kernels."""
    names = frozenset(shard.kernels)
    say(", ".join(shard.kernels))
    report = build(
        [Table.read(shard.table)],
        lambda record: record.name in names,
        toolchain=shard.toolchain,
        store=Store(shard.cache),
        jobs=1,
        launcher=shard.launcher,
        link_libraries=False,
    )
    yield {unit.name: unit.status for unit in report.units}
