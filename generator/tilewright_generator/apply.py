"""Carries a plan out: the only step that touches the disk."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from tilewright_generator import manifest
from tilewright_generator.errors import UsageError
from tilewright_generator.plan import Action, Change, Plan, module_of, record


def apply(plan: Plan) -> None:
    """Do every action. Each file is replaced whole or not at all.

    If this is interrupted, the manifest tells of the actions that were done, and the next run does the rest.
    """
    if not plan.actions:
        return
    files = dict(plan.files)
    for module in {module_of(action.path) for action in plan.actions}:
        _make_folder(plan.folder / module)
    try:
        for action in plan.actions:
            if action.path != manifest.NAME:
                _do(plan.folder, action)
                record(files, action)
    finally:
        _write(plan.folder, manifest.NAME, manifest.dumps(files))
    for action in plan.actions:
        if action.change is Change.REMOVE:
            with suppress(OSError):  # other files are left in it
                (plan.folder / action.path).parent.rmdir()


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"cannot make the folder {folder}: {error.strerror}") from error


def _do(folder: Path, action: Action) -> None:
    try:
        if action.change is Change.REMOVE:
            (folder / action.path).unlink(missing_ok=True)
        else:
            _write(folder, action.path, action.data)
    except OSError as error:
        raise UsageError(f"cannot write {folder / action.path}: {error.strerror}") from error


def _write(folder: Path, path: str, data: bytes) -> None:
    """Write beside the target, then move into place; the hidden name is not a generated file to anyone."""
    temporary = f"{folder}/.tilewright-{os.getpid()}"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
    finally:
        os.close(descriptor)
    # pathlib doubles the cost of a call that is made for every kernel.
    os.replace(temporary, f"{folder}/{path}")  # noqa: PTH105
