"""Compares what the specs say with what is on disk: what to add, change or remove, and what to keep."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from tilewright_generator import conflicts, manifest
from tilewright_generator.errors import UsageError
from tilewright_generator.manifest import Hashes, Manifest
from tilewright_generator.module import File, Module
from tilewright_generator.tree import Kind, Tree, scan

_HEADER_WITHIN = 200  # bytes
_CONFLICT = "it holds the conflict of a merge"


class Change(str, Enum):
    """The change of a file in a plan."""

    ADD = "+"
    CHANGE = "~"
    REMOVE = "-"


class Why(str, Enum):
    """Why a file that is not as the specs say is left alone."""

    EDITED = "edited by hand since it was generated"
    FOREIGN = "not tilewright's, though a spec makes a file of this name"
    UNLISTED = "tilewright wrote it, but no manifest lists it (another branch?)"
    UNKNOWN = "not tilewright's, and no spec makes it"


class Action(NamedTuple):
    """One file to write or to remove."""

    change: Change
    name: str
    """The file's name in the module's folder."""
    data: bytes = b""
    why: str = ""
    """The file's fault, if neither the specs nor the templates cause it."""


class Kept(NamedTuple):
    """A file that is not as the specs say and is left alone."""

    path: str
    why: Why
    data: bytes | None = None
    """The file's new content, if the specs make it."""


@dataclass(slots=True)
class ModulePlan:
    """The planned changes of one module's folder."""

    name: str
    """Empty for the files beside the modules' folders."""
    actions: list[Action] = field(default_factory=list)
    """Sources first, then what lists them, then what goes, the manifest last."""
    unchanged: int = 0
    """How many files are as the specs say."""
    journal: bytes | None = None
    """The manifest while the actions are being done; None where it need not change before they are."""
    other_templates: tuple[str, ...] = ()
    """Templates that are not as they were when the module's files were made from them."""

    def path(self, name: str) -> str:
        """A file of the module, below the output directory."""
        return f"{self.name}/{name}" if self.name else name


@dataclass(slots=True)
class FilePlan:
    """The planned changes of the output directory `folder`."""

    folder: Path
    modules: list[ModulePlan] = field(default_factory=list)
    kept: list[Kept] = field(default_factory=list)

    def actions(self) -> list[tuple[str, Action]]:
        """Every action, with its file's path below the output directory."""
        return [(module.path(action.name), action) for module in self.modules for action in module.actions]


class Scope(NamedTuple):
    """How far a run reaches."""

    everything: bool
    """Whether all the project's specs were given, so that a module of no spec has gone."""
    prune: bool
    """Whether files that no spec makes any more are removed; a filtered run removes none."""
    force: bool = False
    """Whether files that were edited by hand, or are not listed, are replaced and removed too."""


def plan(modules: Iterable[Module], folder: Path, scope: Scope) -> FilePlan:
    """Compares the modules with `folder`.

    Raises `UsageError` if something else than a folder has a module's name, such as a link to a folder: its
    content may be anybody's.
    """
    file_plan = FilePlan(folder)
    beside = scan(folder)
    for module in modules:
        kind = beside.pop(module.name, Kind.FOLDER)
        if kind is not Kind.FOLDER:
            raise UsageError(
                f"{folder / module.name} is {kind.value}; tilewright writes the module {module.name} into a "
                "folder of this name: move away what is there, or give another --out"
            )
        planner = _Planner(file_plan, module.name, Tree(folder / module.name), scope, module.templates)
        for file in module.files:
            planner.compare(file)
        planner.finish()
    if scope.everything:
        loose = {name: kind for name, kind in beside.items() if kind is not Kind.FOLDER}
        for name in sorted(beside.keys() - loose.keys()):
            _Planner(file_plan, name, Tree(folder / name), scope, None).finish()
        _Planner(file_plan, "", Tree(folder, loose), scope, None).finish()
    return file_plan


class _Planner:
    """Compares one module with its folder, and adds what it finds to a plan."""

    def __init__(
        self, plan: FilePlan, name: str, disk: Tree, scope: Scope, templates: dict[str, str] | None
    ) -> None:
        """Plans one module. `templates` is None if no spec makes the module."""
        self._plan = plan
        self._module = ModulePlan(name)
        self._disk = disk
        self._scope = scope
        self._templates = manifest.single(templates or {})
        self._expected: set[str] = set()
        self._after: Hashes = {}
        self._going: Hashes = {}  # the hashes of files that are replaced or removed, as they are now
        self._manifest: bytes | None = None
        self._before = self._read_manifest(strict=templates is not None) if name else Manifest()

    def _read_manifest(self, strict: bool) -> Manifest:
        """The module's manifest. One that is damaged counts as none, or is an error if this is `strict`."""
        data = self._disk.read(manifest.NAME)
        if strict:
            self._expected.add(manifest.NAME)
        if data is None:
            self._nothing_in_the_way(manifest.NAME, *Kind)
            return Manifest()
        try:
            listed = manifest.loads(data.decode())
        except ValueError as error:
            if self._scope.force or not strict:
                return Manifest()
            raise UsageError(
                f"{self._disk.folder / manifest.NAME} is damaged ({error}); restore it, or remove it: "
                "`tilewright generate` then takes what is as the specs say for its own, and keeps the rest"
            ) from None
        self._expected.add(manifest.NAME)
        self._manifest = data
        return listed

    def compare(self, file: File) -> None:
        """Plan what makes `file` so on disk."""
        self._expected.add(file.name)
        if not file.selected:
            self._stay_listed(file.name)
        elif self._disk.kind(file.name) is None:
            self._write(Change.ADD, file)
        elif (content := self._disk.read(file.name)) == file.data:
            self._module.unchanged += 1
            self._after[file.name] = frozenset((file.sha256,))
        elif (why := self._replaceable(file.name, content)) is not None:
            self._write(Change.CHANGE, file, why)
        elif self._scope.force:
            self._write(Change.CHANGE, file)
        else:
            listed = file.name in self._before.files
            unlisted = Why.UNLISTED if _headed(content) else Why.FOREIGN
            self._keep(file.name, Why.EDITED if listed else unlisted, file.data)

    def finish(self) -> None:
        """Plan the removal of what no spec makes any more, and the manifest; the plan has the module then."""
        for name in self._disk.names():
            if name not in self._expected:
                self._extra(name)
        if not self._scope.prune:  # what is missing was not looked for
            for name in self._before.files.keys() - self._expected:
                self._stay_listed(name)
        self._plan_manifest()
        self._plan.modules.append(self._module)

    def _extra(self, name: str) -> None:
        """A file that no spec makes. It is removed if it is as tilewright wrote it; if it only has
        tilewright's header, it is removed with `force`."""
        listed = name in self._before.files
        if listed and not self._scope.prune:
            return
        data = self._disk.read(name) if self._disk.kind(name) is Kind.FILE else None
        ours = listed or _headed(data)
        if self._scope.prune and ((ours and self._scope.force) or self._replaceable(name, data) is not None):
            self._module.actions.append(Action(Change.REMOVE, name))
        else:
            self._keep(name, Why.EDITED if listed else Why.UNLISTED if ours else Why.UNKNOWN)

    def _replaceable(self, name: str, data: bytes | None) -> str | None:
        """The note about replacing a file that nobody asked to replace; None if that takes `force`."""
        if data is None or self._disk.kind(name) is not Kind.FILE:
            return None
        listed = self._before.files.get(name, frozenset())
        digest = sha256(data).hexdigest()
        if digest in listed:
            why = ""
        elif (listed or _headed(data)) and conflicts.marked(data):
            why = _CONFLICT
        elif self._before.conflicted and len(listed) > 1 and _headed(data):
            why = "git merged it from two branches, in which it differs"
        else:
            return None
        self._going[name] = frozenset((digest,))
        return why

    def _write(self, change: Change, file: File, why: str = "") -> None:
        self._nothing_in_the_way(file.name, Kind.FOLDER)
        self._after[file.name] = frozenset((file.sha256,))
        self._module.actions.append(Action(change, file.name, file.data, why))

    def _nothing_in_the_way(self, name: str, *kinds: Kind) -> None:
        kind = self._disk.kind(name)
        if kind in kinds:
            path = self._disk.folder / name
            raise UsageError(f"{path} is {kind.value}, where tilewright writes a file: move it away")

    def _keep(self, name: str, why: Why, data: bytes | None = None) -> None:
        self._stay_listed(name)
        self._plan.kept.append(Kept(self._module.path(name), why, data))

    def _stay_listed(self, name: str) -> None:
        if name in self._before.files:
            self._after[name] = self._before.files[name]

    def _plan_manifest(self) -> None:
        """Plan the manifest itself, which says what the other files have become; and its journal."""
        before, templates = self._before, self._templates
        differing = (
            name for name, digest in templates.items() if before.templates.get(name, digest) != digest
        )
        self._module.other_templates = tuple(sorted(differing))
        if not self._scope.prune and before.templates:  # what the filter leaves is still made from these
            templates = before.templates
        data = manifest.dumps(self._after, templates) if self._after else None
        if data == self._manifest:
            return
        if data is None:
            self._module.actions.append(Action(Change.REMOVE, manifest.NAME))
            return
        why = _CONFLICT if before.conflicted else ""
        if self._module.actions:
            while_doing = manifest.joined(self._after, self._going)
            self._module.journal = manifest.dumps(while_doing, manifest.joined(templates, before.templates))
        elif not before.conflicted and before.templates == templates:
            why = "it does not list the files as they are"
        change = Change.ADD if self._disk.kind(manifest.NAME) is None else Change.CHANGE
        self._module.actions.append(Action(change, manifest.NAME, data, "" if change is Change.ADD else why))


def _headed(data: bytes | None) -> bool:
    """Whether a file begins as those that tilewright writes: a table has its first line for a header."""
    start = (data or b"")[:_HEADER_WITHIN]
    return b"Code generated by tilewright" in start or start.startswith(b'{"format": 1, "module": ')
