"""The state of each kernel: built on this machine, tuned for a GPU; and by committed records: compiled, run,
hammered.

It reads a few files of each module, and the sources of kernels that have a record. It needs no GPU, no torch,
and nothing that was built.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilewright_generator.project import Project
from tilewright_generator.status import CURRENT, NEVER, Records

if TYPE_CHECKING:
    from tilewright.architectures.device import DeviceProperties
    from tilewright.context import Context
    from tilewright.declarations.table import Table


@dataclass(frozen=True, slots=True)
class Standing:
    """The state of a kernel. Results of another source count as stale, or not at all."""

    built: bool = False
    tuned: int | None = None
    """Problems for which it is the fastest by the tuned files in force; None where no GPU is known."""
    compiled: str = NEVER
    run: str = NEVER
    hammered: str = NEVER

    @property
    def verified(self) -> bool:
        """Whether it was run on a GPU and compared with references, as it is now."""
        return self.run == CURRENT


def standings(
    project: Project, modules: Iterable[str], device: DeviceProperties | None
) -> dict[str, Standing]:
    """The states by the names of the modules' generated kernels. Tuned means tuned for `device`."""
    from tilewright.context import Context  # noqa: PLC0415 (other commands need no runtime)
    from tilewright.libraries.registry import Registry  # noqa: PLC0415

    context = Context(Registry(project.out))
    names = set(modules)
    tables = [table for module, table in context.registry.tables.items() if module in names]
    tuned = _tuned(context, {table.family for table in tables}, device) if device else None
    records = Records(project)
    by_kernel: dict[str, Standing] = {}
    for table in tables:
        built, words = _built(table), records.words(table)
        for name in table:
            wins = None if tuned is None else tuned[name]
            by_kernel[name] = Standing(name in built, wins, *words.get(name, (NEVER, NEVER, NEVER)))
    return by_kernel


def _built(table: Table) -> set[str]:
    from tilewright.compile.prebuilt import all_libraries  # noqa: PLC0415

    built: set[str] = set()
    for library in all_libraries(table.module):
        new = library.kernels.keys() - built
        built |= {name for name in new if name in table and library.holds(table[name])}
    return built


def _tuned(context: Context, families: Iterable[str], device: DeviceProperties) -> Counter[str]:
    """How many tuned entries name each kernel."""
    from tilewright.selection.families import family_of  # noqa: PLC0415

    counts: Counter[str] = Counter()
    for name in families:
        try:
            family = family_of(name)
        except ModuleNotFoundError:  # a family that has no op
            continue
        if context.registry.runnable(name, device.capability):
            tuned = context.tuned(family, device)
            counts.update(entry.tactic.kernel for entry in (tuned.entries if tuned else ()))
    return counts
