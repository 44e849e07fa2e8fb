"""Compares what the specs say with what is on disk: what to add, change or remove, and what to keep."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from tilewright_generator import manifest
from tilewright_generator.module import File

_HEADER_WITHIN = 200  # bytes


class Change(str, Enum):
    """What a plan does to a file."""

    ADD = "+"
    CHANGE = "~"
    REMOVE = "-"


class Why(str, Enum):
    """Why a file that is not as the specs say is left alone."""

    EDITED = "edited by hand since it was generated"
    FOREIGN = "not tilewright's, though a spec makes a file of this name"
    UNLISTED = "tilewright wrote it, but manifest.json does not list it (another branch?)"
    UNKNOWN = "not tilewright's, and no spec makes it"


class Action(NamedTuple):
    """One file to write or to remove."""

    change: Change
    path: str
    data: bytes = b""
    sha256: str = ""


class Kept(NamedTuple):
    """A file that is not as the specs say and is left alone."""

    path: str
    why: Why
    data: bytes | None = None
    """What the specs make of it, if they make it."""


@dataclass(slots=True)
class Plan:
    """All that would happen to the output directory `folder`."""

    folder: Path
    actions: list[Action] = field(default_factory=list)
    """Sources first, then what lists them, then what goes, the manifest last."""
    kept: list[Kept] = field(default_factory=list)
    unchanged: Counter[str] = field(default_factory=Counter)
    """How many files of each module are as the specs say."""
    files: dict[str, str] = field(default_factory=dict)
    """The manifest's entries that stand whether or not the actions are done."""


class Scope(NamedTuple):
    """How far a run reaches."""

    modules: frozenset[str]
    """The modules of the specs that were given."""
    everything: bool
    """Whether those are all the project's specs, so that a module of no spec has gone."""
    prune: bool
    """Whether files that no spec makes any more are removed; a filtered run removes none."""


def plan(files: Iterable[File], folder: Path, scope: Scope, force: bool = False) -> Plan:
    """Compare `files` with `folder`. With `force`, files edited by hand and unlisted ones too."""
    planner = _Planner(folder, scope, force)
    for file in files:
        planner.compare(file)
    planner.prune()
    planner.manifest()
    return planner.plan


def module_of(path: str) -> str:
    """The module that a file of the output directory belongs to; empty for the manifest."""
    return path.partition("/")[0] if "/" in path else ""


class _Planner:
    def __init__(self, folder: Path, scope: Scope, force: bool) -> None:
        self._scope = scope
        self._force = force
        self._before = manifest.read(folder, force)
        self._disk = set(_scan(folder))
        self._expected: set[str] = set()
        self.plan = Plan(folder, files=dict(self._before))

    def compare(self, file: File) -> None:
        """Plan what makes `file` so on disk."""
        self._expected.add(file.path)
        if not file.selected:
            return
        if file.path not in self._disk:
            self._act(Change.ADD, file)
            return
        found = self._read(file.path)
        if found == file.data:
            self.plan.unchanged[module_of(file.path)] += 1
            self.plan.files[file.path] = file.sha256
        elif self._ours(file.path, found):
            self._act(Change.CHANGE, file)
        else:
            unlisted = Why.UNLISTED if _headed(found) else Why.FOREIGN
            why = Why.EDITED if file.path in self._before else unlisted
            self.plan.kept.append(Kept(file.path, why, file.data))

    def prune(self) -> None:
        """Plan the removal of what no spec makes any more, if it is as tilewright wrote it."""
        for path in sorted(self._before.keys() | self._disk):
            if path in self._expected or path == manifest.NAME or not self._in_scope(path):
                continue
            if path not in self._before:
                self._unlisted(path)
            elif not self._scope.prune:
                continue
            elif path not in self._disk:
                del self.plan.files[path]
            elif self._ours(path, self._read(path)):
                self.plan.actions.append(Action(Change.REMOVE, path))
            else:
                self.plan.kept.append(Kept(path, Why.EDITED))

    def _unlisted(self, path: str) -> None:
        """A file that no manifest and no spec names: what bears our header goes if that is forced."""
        regular = not (self.plan.folder / path).is_symlink()
        if not regular or not _headed(self._read(path)):
            self.plan.kept.append(Kept(path, Why.UNKNOWN))
        elif self._force and self._scope.prune:
            self.plan.actions.append(Action(Change.REMOVE, path))
        else:
            self.plan.kept.append(Kept(path, Why.UNLISTED))

    def manifest(self) -> None:
        """Plan the manifest itself, which says what the others have become."""
        after = dict(self.plan.files)
        for action in self.plan.actions:
            record(after, action)
        data = manifest.dumps(after)
        if manifest.NAME not in self._disk:
            self.plan.actions.append(Action(Change.ADD, manifest.NAME, data))
        elif after != self._before or self._read(manifest.NAME) != data:
            self.plan.actions.append(Action(Change.CHANGE, manifest.NAME, data))

    def _act(self, change: Change, file: File) -> None:
        self.plan.actions.append(Action(change, file.path, file.data, file.sha256))

    def _ours(self, path: str, found: bytes) -> bool:
        return self._force or self._before.get(path) == sha256(found).hexdigest()

    def _in_scope(self, path: str) -> bool:
        return self._scope.everything or module_of(path) in self._scope.modules

    def _read(self, path: str) -> bytes:
        # A file object costs more than the reading of a kernel's source.
        descriptor = os.open(f"{self.plan.folder}/{path}", os.O_RDONLY)
        try:
            return b"".join(iter(lambda: os.read(descriptor, 1 << 20), b""))
        finally:
            os.close(descriptor)


def record(files: dict[str, str], action: Action) -> None:
    """Note in the manifest's entries that the action has been done."""
    if action.change is Change.REMOVE:
        files.pop(action.path, None)
    elif action.path != manifest.NAME:
        files[action.path] = action.sha256


def _headed(found: bytes) -> bool:
    """Whether a file begins as those that tilewright writes: a table has its first line for a header."""
    start = found[:_HEADER_WITHIN]
    return b"Code generated by tilewright" in start or start.startswith(b'{"format": 1, "module": ')


def _scan(folder: Path, below: str = "") -> Iterator[str]:
    """Every file below `folder`, as the manifest spells it; none that is hidden."""
    try:
        with os.scandir(f"{folder}/{below}") as entries:
            for entry in entries:
                if entry.name.startswith("."):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    yield from _scan(folder, f"{below}{entry.name}/")
                else:
                    yield below + entry.name
    except FileNotFoundError:
        return
