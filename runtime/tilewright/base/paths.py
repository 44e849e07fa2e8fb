"""The folders of tilewright's own generated sources and headers, of the build cache and of tuned files.

In a checkout they are the repository's folders; in an installed wheel they are below
`tilewright/_data`. `TILEWRIGHT_CACHE` and `TILEWRIGHT_TUNED` override. A `~` at the start of a path
in a variable is a user's home: shells leave it in `TILEWRIGHT_CACHE='~/x'` and in files of settings.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[1]
_CHECKOUT = _PACKAGE.parents[1]

TUNED = "TILEWRIGHT_TUNED"

log = logging.getLogger("tilewright")


def shipped_generated_dir() -> Path:
    """The folder of the modules that come with tilewright, whatever TILEWRIGHT_GENERATED is (`sets.py`)."""
    return _CHECKOUT / "generated" if in_checkout() else _PACKAGE / "_data" / "generated"


def include_dir() -> Path:
    """The folder to put on a compiler's include path for `tilewright/...`."""
    return _CHECKOUT / "runtime" / "include" if in_checkout() else _PACKAGE / "_data" / "include"


def cache_dir() -> Path:
    """The folder of built kernels and libraries. It may not exist: whatever writes to it creates it."""
    if override := os.environ.get("TILEWRIGHT_CACHE"):
        return Path(expanded(override))
    import platformdirs  # noqa: PLC0415 (only a build or a load needs it)

    return Path(platformdirs.user_cache_dir("tilewright", appauthor=False))


def expanded(path: str) -> str:
    """The path with a user's home in the place of `~` or `~USER`; unchanged if there is no such user."""
    return os.path.expanduser(path)  # noqa: PTH111 (pathlib's raises RuntimeError for an unknown user)


def listed(variable: str) -> list[str]:
    """The words of a variable that lists paths as PATH does, each expanded; none if it is not set."""
    return [expanded(word) for word in os.environ.get(variable, "").split(os.pathsep) if word]


def tuned_dirs() -> list[Path]:
    """The user's folders of tuned files, the first counts most; they may not exist.

    TILEWRIGHT_TUNED lists them (empty: none). By default there is one folder, in the cache. A project ships
    its tuned files beside `generated/`, and these count least.
    """
    return [Path(path) for path in listed(TUNED)] if TUNED in os.environ else [cache_dir() / "tuned"]


@cache
def warn_of_missing(folders: tuple[Path, ...]) -> None:
    """Logs which of the folders that TILEWRIGHT_TUNED names are none, once in a process."""
    for folder in folders:
        if not folder.is_dir():
            what = "is not a folder" if folder.exists() else "does not exist"
            log.warning("%s: %s %s; passed over", TUNED, folder, what)


def tuned_file(folder: Path, gpu: str, family: str) -> Path:
    """A family's tuned file for a GPU of this name, in a folder of such files: nvidia_h200/FAMILY.json."""
    slug = re.sub(r"[^a-z0-9]+", "_", gpu.lower()).strip("_")
    return folder / slug / f"{family}.json"


def shipped_dir(generated: Path) -> Path:
    """The folder of the tuned files that are shipped with the kernels below `generated`; it may not exist."""
    return generated.parent / "tuned"


def tuned_files(folders: Sequence[Path], gpu: str, family: str) -> list[tuple[Path, bool]]:
    """The existing tuned files for the kernels below these folders of modules, the first counts most, and
    whether each is shipped with its kernels."""
    own = [(tuned_file(folder, gpu, family), False) for folder in tuned_dirs()]
    shipped = [(tuned_file(shipped_dir(generated), gpu, family), True) for generated in folders]
    return [(path, is_shipped) for path, is_shipped in (*own, *shipped) if path.exists()]


def in_checkout() -> bool:
    """Whether the package runs from a repository: by an editable install, or by PYTHONPATH."""
    return (_CHECKOUT / "runtime" / "include" / "tilewright").is_dir()


def in_each(folder: Path, name: str) -> list[Path]:
    """The files of this name in the subfolders of a folder, sorted; none if the folder does not exist.

    It saves the first lookup half a millisecond against pathlib's glob, which compiles patterns.
    """
    try:
        paths = [subfolder / name for subfolder in folder.iterdir()]
    except OSError:
        return []
    return sorted(path for path in paths if os.path.exists(path))  # noqa: PTH110 (raises nothing)
