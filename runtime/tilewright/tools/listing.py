"""`tilewright.kernels`: lists kernels, for people and programs."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, overload

from tilewright import context as contexts
from tilewright.base.spelling import did_you_mean, listed, text
from tilewright.declarations import catalog
from tilewright.errors import ArgumentError
from tilewright.tools.filters import SIDES, Filter, fields_of, why_none

if TYPE_CHECKING:
    from tilewright.declarations.table import KernelRecord

_SHOWN = 20  # kernels that `repr` names


class Kernels(Sequence["KernelRecord"]):
    """Kernels in the order of modules and tables; `repr` shows their names and the fields in which they
    differ."""

    def __init__(self, family: str, records: Sequence[KernelRecord], why: str = "") -> None:
        """`why`: for an empty list, a hint at what exists instead."""
        self.family = family
        self._records = tuple(records)
        self._why = why

    @property
    def names(self) -> list[str]:
        """The names of the kernels in tactics, in tuned files and in `tilewright build --filter`."""
        return [record.name for record in self._records]

    def __len__(self) -> int:
        return len(self._records)

    @overload
    def __getitem__(self, index: int) -> KernelRecord: ...
    @overload
    def __getitem__(self, index: slice) -> Kernels: ...
    def __getitem__(self, index: int | slice) -> KernelRecord | Kernels:
        if isinstance(index, slice):
            return Kernels(self.family, self._records[index])
        if not self._records:
            raise IndexError(repr(self))
        return self._records[index]

    def __repr__(self) -> str:
        count = len(self)
        head = f"{count} kernel{'' if count == 1 else 's'} of {self.family}{self._why}"
        more = [f"  ... and {count - _SHOWN} more"] if count > _SHOWN else []
        names = [f"  {name}" for name in self.names[:_SHOWN]]
        return "\n".join([head + (":" if count else ""), *names, *more, *self._differences()])

    def _differences(self) -> Iterator[str]:
        """The fields in which the kernels differ, each with its values."""
        width = shutil.get_terminal_size().columns - 1
        for field in self._records[0].config if self._records else ():
            values = list(dict.fromkeys(text(record.config.get(field, "")) for record in self._records))
            if len(values) > 1:
                line = f"  {field}: {listed(sorted(values))}"
                yield line if len(line) <= width else f"{line[: width - 4].rpartition(',')[0]}, ..."


def kernels(family: str, **filters: object) -> Kernels:
    """The kernels of a family whose fields have the values that are given.

    Args:
        family: its name; `tilewright list` shows all families.
        filters: a field of the family's configurations (`tilewright explain FAMILY` lists them), or `name`,
            `m_tile`, `n_tile`, `k_tile`, `compiler`: a value, or globs with commas between them, as in
            `--filter`: `kernels(family, a="bf16", tile="128x*", arch="sm90", name="*coop*,*pingpong*")`.

    Returns:
        A sequence of `tilewright.declarations.table.KernelRecord`, whose `name` is a tactic that ops take.
        The `repr` of an empty sequence names the values that exist.

    Raises:
        ArgumentError: no such family or field exists; the message names those that do.
        TableError: there is no module at all.
    """
    registry = contexts.current().registry
    present = sorted({table.family for table in registry.tables.values()})
    if not present:
        registry.kernels(family)  # which says that there is no module at all
    if family not in present:
        hint = catalog.meant(str(family), present) or f"; there are: {', '.join(present)}"
        raise ArgumentError("family", f"there are no kernels of {family}{hint}")
    records = registry.kernels(family)
    legal = {*SIDES, *(name for record in records for name in fields_of(record))}
    for name in filters.keys() - {*legal, "name"}:
        hint = did_you_mean(name, legal) or f"; there are: name, {', '.join(sorted(legal))}"
        raise ArgumentError(name, f"is no field of {family}'s kernels{hint}")
    terms = [str(value) if name == "name" else f"{name}={text(value)}" for name, value in filters.items()]
    only = Filter.parse(terms, legal)
    chosen = [record for record in records if only.matches(record.name, fields_of(record).__getitem__)]
    return Kernels(family, chosen, "" if chosen else why_none(terms, records))
