"""Carries a plan out: the only step that touches the disk."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path

from tilewright.base import writing
from tilewright_generator import manifest
from tilewright_generator.errors import UsageError
from tilewright_generator.plan import Action, Change, FilePlan, ModulePlan

_TEMPORARY = re.compile(r"\.tilewright-\d+")  # what is written before it is moved into place


def apply(plan: FilePlan) -> None:
    """Does every action. Each file is replaced whole or not at all.

    A module's manifest is written twice: before its files, with the old and the new hashes, and after them.
    So a run may be killed at any moment, and the next run knows every file that it finds, whatever its inputs
    are.
    """
    for module in plan.modules:
        if module.actions:
            _apply(plan.folder, module)


def remove_leftovers(folder: Path) -> None:
    """Removes the drafts of killed runs. Only for a run that no other process can be writing beside."""
    for name in os.listdir(folder):  # noqa: PTH208 - names are all that is needed
        if _TEMPORARY.fullmatch(name):
            with suppress(OSError):  # another user's, which does no harm
                (folder / name).unlink()


def _apply(folder: Path, module: ModulePlan) -> None:
    place = folder / module.name
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot make the folder {place}: {error.strerror}") from error
    if module.journal is not None:
        _do(folder, module.name, Action(Change.CHANGE, manifest.NAME, module.journal))
    for action in module.actions:
        _do(folder, module.name, action)
    removed = [place / action.name for action in module.actions if action.change is Change.REMOVE]
    for parent in {path.parent for path in removed}:
        with suppress(OSError):  # other files are left in it
            parent.rmdir()


def _do(folder: Path, module: str, action: Action) -> None:
    # pathlib doubles the cost of a call that is made for every kernel.
    path = f"{folder}/{module}/{action.name}"
    try:
        if action.change is Change.REMOVE:
            Path(path).unlink(missing_ok=True)
        else:
            writing.replace(f"{folder}/.tilewright-{os.getpid()}", path, action.data)
    except OSError as error:
        raise UsageError(
            f"cannot write {path}: {error.strerror}; what has been written stays, and the next "
            "`tilewright generate` goes on"
        ) from error
