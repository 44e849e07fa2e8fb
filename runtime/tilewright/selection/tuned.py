"""The tuned entries for a GPU: the user's files, then the shipped ones, checked when they are needed."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace
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
    from tilewright.libraries.registry import Registry
    from tilewright.selection.family import Family

log = logging.getLogger("tilewright")

IN_MEMORY = Path("in memory")  # the path of entries that this process has added itself
_logged: set[str] = set()  # messages that this process has logged


class TunedTactic(NamedTuple):
    """A tuned tactic, its measured seconds, and its file."""

    tactic: Tactic
    seconds: float
    path: Path
    seen: frozenset[str]  # the kernels that tuning chose from


class _Unjudged(NamedTuple):
    """A section of a file whose header fits this machine. Its rows are not checked yet."""

    path: Path
    shipped: bool
    section: Section


class Tuned:
    """The tuned entries of a family for a GPU. If two folders have an entry for one problem, the first
    counts.

    Files are read, and their headers checked, at once. The entries of a kind of problem are checked when the
    kind is first asked for. A refused file or a dropped entry is logged once, and is in `messages`: as a
    warning for a user's file, as information for a shipped one. No file is changed here.
    """

    def __init__(self, family: Family[Any], registry: Registry, device: DeviceProperties) -> None:
        self._family = family
        self._registry = registry
        self._device = device
        self._lock = fork_safe_lock()
        self._messages: list[str] = []
        self._unjudged: dict[Key, list[_Unjudged]] = {}  # by kind
        self._judged: dict[Key, dict[Key, TunedTactic]] = {}  # by kind, by extents
        header = Header.of(device, registry, family.name)
        for path, shipped in paths.tuned_files(registry.folders, device.name, family.name):
            self._read(path, header, shipped=shipped)

    def exact(self, problem: Any) -> Tactic | None:
        """The tactic that was the fastest for this problem."""
        entry = self.entry(problem)
        return None if entry is None else entry.tactic

    def entry(self, problem: Any) -> TunedTactic | None:
        """Same as `exact`, with the measured seconds. Also None if the kernel does not take the operands'
        alignment."""
        entry = self._of_kind(problem).get(tuned_files.extents_of(self._family, problem))
        return entry if entry and self._legal(entry.tactic, problem) else None

    def neighbour(self, problem: Any) -> tuple[Tactic, Any] | None:
        """The tactic of the nearest tuned problem that differs in the family's `neighbour` extent alone, and
        that problem.

        The nearest above with less than twice that extent; else the nearest below with more than half of it.
        The tactic is legal for `problem` too; other tactics are passed over.
        """
        family = self._family
        place = family.extents.index(family.neighbour)
        key = tuned_files.extents_of(family, problem)
        near = [
            (extents[place], entry.tactic)
            for extents, entry in self._of_kind(problem).items()
            if extents[:place] == key[:place] and extents[place + 1 :] == key[place + 1 :]
        ]
        own = key[place]
        above = sorted((extent, tactic) for extent, tactic in near if own < extent < 2 * own)
        below = sorted(((extent, tactic) for extent, tactic in near if own / 2 < extent < own), reverse=True)
        for extent, tactic in (*above, *below):
            if self._legal(tactic, problem):
                return tactic, replace(problem, **{family.neighbour: extent})
        return None

    def prefer(self, entries: Iterable[Entry]) -> None:
        """Adds entries of this process, which replace those of files, also of sections that are checked
        later."""
        for entry in entries:
            key = tuned_files.frozen(tuned_files.kind_of(self._family, entry.problem))
            with self._lock:
                by_extents = self._judged.setdefault(key, {})
                extents = tuned_files.extents_of(self._family, entry.problem)
                by_extents[extents] = TunedTactic(entry.tactic, entry.seconds, IN_MEMORY, entry.seen)

    @property
    def entries(self) -> list[Entry]:
        """All entries, in the order of files."""
        self._judge_all()
        return [
            Entry(self._problem(kind, extents), entry.tactic, entry.seconds, entry.seen)
            for kind, by_extents in self._judged.items()
            for extents, entry in by_extents.items()
        ]

    @property
    def messages(self) -> list[str]:
        """The refused files and the dropped entries, with reasons."""
        self._judge_all()
        return list(self._messages)

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

    def _of_kind(self, problem: Any) -> dict[Key, TunedTactic]:
        if not self._unjudged and not self._judged:
            return {}
        key = tuned_files.frozen(tuned_files.kind_of(self._family, problem))
        with self._lock:
            if key in self._unjudged:
                self._judge(key)
            return self._judged.get(key, {})

    def _judge(self, key: Key) -> None:
        """Checks the sections of a kind, and keeps the entries that hold."""
        dropped: dict[tuple[Path, bool], list[Dropped]] = {}
        by_extents = self._judged.setdefault(key, {})
        for path, shipped, section in self._unjudged.pop(key):
            for row in section.rows:
                entry = judged(section, row, self._family, self._registry, self._device.capability)
                if isinstance(entry, str):
                    dropped.setdefault((path, shipped), []).append(Dropped(row["tactic"], entry))
                else:
                    extents = tuned_files.extents_of(self._family, entry.problem)
                    tactic = TunedTactic(entry.tactic, entry.seconds, path, entry.seen)
                    by_extents.setdefault(extents, tactic)
        for (path, shipped), entries in dropped.items():
            self._say(f"{path}: dropped {counted(entries)}", shipped)

    def _problem(self, kind: Key, extents: Iterable[int]) -> Any:
        """A problem of the family from the values of a tuned file."""
        return self._family.problem(**dict(zip(self._family.extents, extents, strict=True)), **dict(kind))

    def _judge_all(self) -> None:
        with self._lock:
            for key in list(self._unjudged):
                self._judge(key)

    def _say(self, message: str, shipped: bool) -> None:
        self._messages.append(message)
        if message not in _logged:
            _logged.add(message)
            log.log(logging.INFO if shipped else logging.WARNING, "%s", message)
