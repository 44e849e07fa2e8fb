"""What is tuned for a GPU: the user's files, then those that the project ships, judged as they are needed."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import replace
from math import log2
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tilewright.base import paths
from tilewright.base.forking import fork_safe_lock
from tilewright.declarations.tactics import Tactic
from tilewright.errors import TunedFileError
from tilewright.selection import tuned_files
from tilewright.selection.tuned_entries import Dropped, counted, judged
from tilewright.selection.tuned_files import Entry, Key, Section
from tilewright.selection.tuned_header import Header

if TYPE_CHECKING:
    from tilewright.architectures.device import DeviceProperties
    from tilewright.declarations.table import KernelRecord
    from tilewright.libraries.registry import Registry
    from tilewright.selection.family import Family

log = logging.getLogger("tilewright")

IN_MEMORY = Path("in memory")  # what stands for the file of this process's own entries
_logged: set[str] = set()  # by this process


class Found(NamedTuple):
    """A tuned tactic, the seconds that were measured, and the file that says so."""

    tactic: Tactic
    seconds: float
    path: Path
    seen: frozenset[str]  # the kernels that it was chosen from


class _Unjudged(NamedTuple):
    """A section of a file whose header stands."""

    path: Path
    shipped: bool
    section: Section


class Tuned:
    """The tuned entries of a family for a GPU; of two for one problem, the first folder's counts.

    Files are read, and their headers judged, at once; the entries of a kind of problem when it is first asked
    for. What is refused or dropped is logged once, and is in `messages`: as a warning of a user's file, as
    information of a shipped one. No file is ever changed here.
    """

    def __init__(self, family: Family[Any], registry: Registry, device: DeviceProperties) -> None:
        self._family = family
        self._registry = registry
        self._device = device
        self._lock = fork_safe_lock()
        self._said: list[str] = []
        self._unjudged: dict[Key, list[_Unjudged]] = {}  # by kind
        self._found: dict[Key, dict[Key, Found]] = {}  # by kind, by extents
        there = paths.tuned_files(registry.generated, device.name, family.name)
        header = Header.of(device, registry, family.name)
        for path, shipped in there:
            self._read(path, header, shipped=shipped)

    def exact(self, problem: Any) -> Tactic | None:
        """The tactic that was the fastest for this problem."""
        found = self.found(problem)
        return None if found is None else found.tactic

    def found(self, problem: Any) -> Found | None:
        """As `exact`, with what was measured. None too where the operands lie so that the kernel does
        not take them."""
        found = self._of_kind(problem).get(tuned_files.extents_of(self._family, problem))
        return found if found and self._legal(found.tactic, problem) else None

    def bucket(self, problem: Any) -> tuple[Tactic, Any] | None:
        """The tactic of the nearest tuned problem that differs in the family's `neighbour` extent alone, and
        that problem.

        The nearest above, of less than twice that extent; else the nearest below, of more than half of it.
        The tactic is legal for `problem` too; one that is not is passed over.
        """
        family = self._family
        place = family.extents.index(family.neighbour)
        key = tuned_files.extents_of(family, problem)
        near = [
            (other[place], found.tactic)
            for other, found in self._of_kind(problem).items()
            if other[:place] == key[:place] and other[place + 1 :] == key[place + 1 :]
        ]
        own = key[place]
        above = sorted((extent, tactic) for extent, tactic in near if own < extent < 2 * own)
        below = sorted(((extent, tactic) for extent, tactic in near if own / 2 < extent < own), reverse=True)
        for extent, tactic in (*above, *below):
            if self._legal(tactic, problem):
                return tactic, replace(problem, **{family.neighbour: extent})
        return None

    def near(self, problem: Any) -> list[Tactic]:
        """Tactics that are legal for the problem and won for one like it: of its extents, or of half to twice
        its `neighbour` extent, the nearest first; of another kind (FP16 for BF16) by the kernel that is the
        same in all else."""
        self._judge_all()
        family = self._family
        place = family.extents.index(family.neighbour)
        key = tuned_files.extents_of(family, problem)
        found: list[tuple[float, Tactic]] = []
        for by_extents in self._found.values():
            for extents, one in by_extents.items():
                apart = abs(log2(max(1, extents[place]) / max(1, key[place])))
                if apart <= 1 and (*extents[:place], *extents[place + 1 :]) == (
                    *key[:place], *key[place + 1 :],
                ):  # fmt: skip
                    found += [(apart, tactic) for tactic in self._alike(one.tactic, problem)]
        return list(dict.fromkeys(tactic for _, tactic in sorted(found, key=lambda one: one[0])))

    def _alike(self, tactic: Tactic, problem: Any) -> Iterator[Tactic]:
        """The tactic by kernels of the problem's kind that are as its own is, but for what the kind says."""
        family, registry = self._family, self._registry

        def rest(record: KernelRecord) -> dict[str, Any]:
            return {name: value for name, value in record.config.items() if name not in family.decisive}

        own = registry.record(tactic.kernel)
        records = registry.route(family.name, self._device)
        for record in family.of_kind(registry, records, problem.kind):
            if record.name == own.name or rest(record) == rest(own):
                other = replace(tactic, kernel=record.name)
                if self._legal(other, problem):
                    yield other

    def prefer(self, entries: Iterable[Entry]) -> None:
        """Puts entries of this process before those of files."""
        for entry in entries:
            self._of_kind(entry.problem)  # else the sections of files, judged later, came on top
            key = tuned_files.frozen(tuned_files.kind_of(self._family, entry.problem))
            with self._lock:
                found = self._found.setdefault(key, {})
                extents = tuned_files.extents_of(self._family, entry.problem)
                found[extents] = Found(entry.tactic, entry.seconds, IN_MEMORY, entry.seen)

    @property
    def entries(self) -> list[Entry]:
        """All of them, in the order of files."""
        self._judge_all()
        return [
            Entry(self._problem(kind, extents), found.tactic, found.seconds, found.seen)
            for kind, by_extents in self._found.items()
            for extents, found in by_extents.items()
        ]

    @property
    def messages(self) -> list[str]:
        """What was refused or dropped, and why."""
        self._judge_all()
        return list(self._said)

    def _legal(self, tactic: Tactic, problem: Any) -> bool:
        record = self._registry.record(tactic.kernel)
        return self._family.misfit_tactic(tactic, record, problem) is None

    def _read(self, path: Path, header: Header, *, shipped: bool) -> None:
        try:
            file = tuned_files.read(path)
        except FileNotFoundError:
            return
        except TunedFileError as error:
            self._say(f"{error.message}; passed over", shipped)
            return
        reason = header.mismatch(file.header, shipped=shipped)
        if file.family != self._family.name:
            reason = f"it is of {file.family}"
        if reason is not None:
            self._say(f"{path} is of another machine and passed over: {reason}", shipped)
            return
        if header.driver and file.header.driver != header.driver:
            log.debug("%s: tuned under driver %s, here it is %s", path, file.header.driver, header.driver)
        for section in file.sections:
            kind = tuned_files.whole_kind(self._family, section.kind)
            if kind is None:
                self._say(f"{path}: passed over a section of unknown problems: {section.kind}", shipped)
            else:
                judged = _Unjudged(path, shipped, tuned_files.Section(kind, section.seen, section.rows))
                self._unjudged.setdefault(tuned_files.frozen(kind), []).append(judged)

    def _of_kind(self, problem: Any) -> dict[Key, Found]:
        if not self._unjudged and not self._found:
            return {}
        key = tuned_files.frozen(tuned_files.kind_of(self._family, problem))
        with self._lock:
            if key in self._unjudged:
                self._judge(key)
            return self._found.get(key, {})

    def _judge(self, key: Key) -> None:
        """Takes what stands of a kind's sections."""
        dropped: dict[tuple[Path, bool], list[Dropped]] = {}
        found = self._found.setdefault(key, {})
        for path, shipped, section in self._unjudged.pop(key):
            for row in section.rows:
                entry = judged(section, row, self._family, self._registry, self._device.capability)
                if isinstance(entry, str):
                    dropped.setdefault((path, shipped), []).append(Dropped(row["tactic"], entry))
                else:
                    extents = tuned_files.extents_of(self._family, entry.problem)
                    found.setdefault(extents, Found(entry.tactic, entry.seconds, path, entry.seen))
        for (path, shipped), some in dropped.items():
            self._say(f"{path}: dropped {counted(some)}", shipped)

    def _problem(self, kind: Key, extents: Iterable[int]) -> Any:
        """A problem of the family, of values as JSON has them."""
        return self._family.problem(**dict(zip(self._family.extents, extents, strict=True)), **dict(kind))

    def _judge_all(self) -> None:
        with self._lock:
            for key in list(self._unjudged):
                self._judge(key)

    def _say(self, message: str, shipped: bool) -> None:
        self._said.append(message)
        if message not in _logged:
            _logged.add(message)
            log.log(logging.INFO if shipped else logging.WARNING, "%s", message)
