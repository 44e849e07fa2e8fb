"""Digests of trees of headers that no key lists one by one: CUTLASS's, TVM-FFI's."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from tilewright.compile.keys import files_digest


def tree_digest(root: Path, memory: Path | None, *, keep: bool = True) -> str:
    """A digest of every file below `root`, by its path below it; see `files_digest`."""
    prefix = len(str(root)) + 1
    return files_digest(
        {path[prefix:]: Path(path) for path in _walk(str(root))}, memory, str(root), keep=keep
    )


def _walk(folder: str) -> Iterator[str]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                yield from _walk(entry.path)
            elif entry.is_file():
                yield entry.path
