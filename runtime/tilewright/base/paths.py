"""Where the generated sources, the headers and the build cache are.

In a checkout they stand where the repository has them; in an installed wheel below
`tilewright/_data`. `TILEWRIGHT_GENERATED`, `TILEWRIGHT_CACHE` and `TILEWRIGHT_TUNED` override.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parents[1]
_CHECKOUT = _PACKAGE.parents[1]


def generated_dir() -> Path:
    """The folder of `<module>/table.json`; it may not exist."""
    if override := os.environ.get("TILEWRIGHT_GENERATED"):
        return Path(override)
    return shipped_generated_dir()


def shipped_generated_dir() -> Path:
    """As `generated_dir`, of the modules that come with tilewright."""
    return _CHECKOUT / "generated" if in_checkout() else _PACKAGE / "_data" / "generated"


def include_dir() -> Path:
    """The folder to put on a compiler's include path for `tilewright/...`."""
    return _CHECKOUT / "runtime" / "include" if in_checkout() else _PACKAGE / "_data" / "include"


def cache_dir() -> Path:
    """The folder of built kernels and libraries; created by whoever writes there."""
    if override := os.environ.get("TILEWRIGHT_CACHE"):
        return Path(override)
    import platformdirs  # noqa: PLC0415 (only a build or a load needs it)

    return Path(platformdirs.user_cache_dir("tilewright", appauthor=False))


def tuned_dirs() -> list[Path]:
    """The user's folders of tuned files, the first counts most; they may not exist.

    TILEWRIGHT_TUNED lists them (empty: none); else there is one in the cache. What a project ships stands
    beside its `generated/`, and counts least.
    """
    named = os.environ.get("TILEWRIGHT_TUNED")
    if named is None:
        return [cache_dir() / "tuned"]
    return [Path(folder) for folder in named.split(os.pathsep) if folder]


def tuned_file(folder: Path, gpu: str, family: str) -> Path:
    """A family's tuned file for a GPU of this name, in a folder of such files: nvidia_h200/FAMILY.json."""
    slug = re.sub(r"[^a-z0-9]+", "_", gpu.lower()).strip("_")
    return folder / slug / f"{family}.json"


def shipped_dir(generated: Path) -> Path:
    """The folder of the tuned files that are shipped with the kernels below `generated`; it may not exist."""
    return generated.parent / "tuned"


def tuned_files(generated: Path, gpu: str, family: str) -> list[tuple[Path, bool]]:
    """The tuned files that there are for the kernels below `generated`, the first counts most, and whether
    each is shipped beside them."""
    own = [(tuned_file(folder, gpu, family), False) for folder in tuned_dirs()]
    shipped = (tuned_file(shipped_dir(generated), gpu, family), True)
    return [(path, is_shipped) for path, is_shipped in (*own, shipped) if path.exists()]


def in_checkout() -> bool:
    """True where the package runs from a repository: an editable install, or PYTHONPATH."""
    return (_CHECKOUT / "runtime" / "include" / "tilewright").is_dir()


def in_each(folder: Path, name: str) -> list[Path]:
    """The files of this name in the folders that stand in one, sorted; none where it is not there.

    Half a millisecond less of a first lookup than pathlib's glob, which compiles patterns.
    """
    try:
        found = [each / name for each in folder.iterdir()]
    except OSError:
        return []
    return sorted(path for path in found if os.path.exists(path))  # noqa: PTH110 (raises nothing)
