"""Plans in words, as JSON and as diffs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from difflib import unified_diff
from operator import attrgetter
from pathlib import Path
from typing import Any

import click

from tilewright.base import reading
from tilewright.base.spelling import listed
from tilewright.compile.compilers import SUFFIXES
from tilewright.errors import UnreadableFileError
from tilewright_generator import manifest
from tilewright_generator.expand import Expansion
from tilewright_generator.plan import Action, Change, FilePlan
from tilewright_generator.plurals import counted

_SHOWN = 100  # actions of a module that are printed; --json has all
_NAMED = 20  # combinations of a spec that are left out and printed
_PLACES = 5  # groups of a spec with such combinations
_COLOURS = {Change.ADD: "green", Change.CHANGE: "yellow", Change.REMOVE: "red"}


def left_out(expansions: Iterable[Expansion], *, named: bool = False) -> Iterator[str]:
    """For each spec of which rules reject combinations: their number, and the rules. What a spec excludes it
    says itself. `named`: also each combination with the reason, and the way to say that it is meant.
    """
    for expansion in expansions:
        rejected = expansion.rejected
        if not rejected:
            continue
        rules = ", ".join(f"{rule} {count:,}" for rule, count in expansion.rejections().items())
        yield f"{expansion.spec.path}: {counted(len(rejected), 'combination')} left out: {rules}"
        if not named:
            continue
        name = expansion.spec.family.kernel_name
        yield from (f"  {name(candidate.config)}: {candidate.verdict}" for candidate in rejected[:_NAMED])
        if len(rejected) > _NAMED:
            yield f"  ... and {len(rejected) - _NAMED:,} more (--json lists all)"
        places = list(dict.fromkeys(str(candidate.group.position) for candidate in rejected))
        yield f"  if that is meant, say so by `exclude:` with a reason at {listed(places, _PLACES)}"


def actions(plan: FilePlan) -> Iterator[str]:
    """The plan, module by module, with counts and what each would compile."""
    for module in sorted(plan.modules, key=attrgetter("name")):
        changes = module.actions
        if not changes:
            continue
        yield f"{module.name or plan.folder.name}:"
        for action in changes[:_SHOWN]:
            line = f"{action.change.value} {module.path(action.name)}"
            why = f": {action.why}" if action.why else ""
            yield f"  {click.style(line, fg=_COLOURS[action.change])}{why}"
        if len(changes) > _SHOWN:
            yield f"  ... and {len(changes) - _SHOWN:,} more (--json lists all)"
        counts = Counter(action.change for action in changes)
        yield (
            f"  {counts[Change.ADD]:,} to add, {counts[Change.CHANGE]:,} to change, "
            f"{counts[Change.REMOVE]:,} to remove, {module.unchanged:,} unchanged; "
            f"{counted(units(changes), 'unit')} to compile"
        )


def shown(path: Path) -> Path:
    """The path from the working directory, if it leads down."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def units(actions: Iterable[Action]) -> int:
    """Kernel sources that would be compiled again."""
    return sum(action.name.endswith(SUFFIXES) and action.change is not Change.REMOVE for action in actions)


def diffs(plan: FilePlan) -> Iterator[str]:
    """Unified diffs from what is on disk to what the specs say; manifests follow from the other files."""
    for path, action in plan.actions():
        if action.name != manifest.NAME:
            yield from _diff(plan.folder, path, action.data)
    for kept in plan.kept:
        if kept.data is not None:
            yield from _diff(plan.folder, kept.path, kept.data)


def _diff(folder: Path, path: str, data: bytes) -> Iterator[str]:
    try:
        old = reading.contents(folder / path)
    except (FileNotFoundError, UnreadableFileError):  # what is no file has no lines
        old = b""
    before, after = (text.decode(errors="replace").splitlines() for text in (old, data))
    names = (f"a/{path}" if old else "/dev/null", f"b/{path}" if data else "/dev/null")
    for line in unified_diff(before, after, *names, lineterm=""):
        colour = {"+": "green", "-": "red", "@": "cyan"}.get(line[0])
        yield click.style(line, fg=colour) if colour else line


def as_json(plan: FilePlan, expansions: Iterable[Expansion]) -> dict[str, Any]:
    """The plan for machines."""
    kinds = {Change.ADD: "add", Change.CHANGE: "change", Change.REMOVE: "remove"}
    planned = {module.name: module for module in plan.modules}
    modules: dict[str, dict[str, Any]] = {}
    for expansion in expansions:
        own = planned[expansion.spec.module]
        modules[expansion.spec.module] = {
            "spec": expansion.spec.path,
            "kernels": len(expansion.kernels),
            "excluded": len(expansion.excluded),
            "rejected": expansion.rejections(),
            "left_out": [
                {
                    "name": expansion.spec.family.kernel_name(rejected.config),
                    "position": str(rejected.group.position),
                }
                | rejected.verdict._asdict()
                for rejected in expansion.rejected
            ],
            "unchanged": own.unchanged,
            "units": units(own.actions),
        }
    return {
        "modules": modules,
        "actions": [{"change": kinds[action.change], "path": path} for path, action in plan.actions()],
        "kept": [{"path": kept.path, "why": kept.why.value} for kept in plan.kept],
    }
