"""Compares the files that a compiler read, by its depfile, with those that a key covers."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path


def unhashed_inputs(depfile: str, cwd: Path, files: Iterable[str], roots: Iterable[str]) -> list[str]:
    """The files a make-style depfile names that are neither in `files` nor below one of `roots`."""
    text = depfile.split(":", 1)[1] if ":" in depfile else ""
    text = text.replace("\\\n", " ")
    names = [name.replace("\\ ", " ") for name in re.split(r"(?<!\\)[ \t\n]+", text) if name]
    covered = {os.path.realpath(file) for file in files}
    below = tuple(os.path.realpath(root) + os.sep for root in roots)
    folders: dict[str, str] = {}

    def resolve(name: str) -> str:
        path = os.path.join(cwd, name)  # noqa: PTH118 (pathlib is slow for 2,000 paths)
        folder, base = os.path.split(path)
        if folder not in folders:
            folders[folder] = os.path.realpath(folder)
        return f"{folders[folder]}{os.sep}{base}"

    paths = {resolve(name) for name in names}
    return sorted(path for path in paths if path not in covered and not path.startswith(below))
