"""Plugins: families that other packages bring, in the namespace package `tilewright_families`.

A namespace package has no `__init__.py` and is made of the folders of that name on sys.path, so that any
distribution may put a family into it, and to list them is to list folders. A family's folder has the modules
of one that comes with tilewright (`families/<family>/`), and folders `templates` and `include`.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path
from pkgutil import iter_modules

NAMESPACE = "tilewright_families"


@cache
def families() -> dict[str, Path]:
    """The folder of each such family, by its name; nothing of it is imported."""
    spec = find_spec(NAMESPACE)
    places = list(spec.submodule_search_locations or ()) if spec is not None else []
    return {
        found.name: Path(place, found.name)
        for place in reversed(places)
        for found in iter_modules([place])
        if found.ispkg
    }


def folders(name: str) -> tuple[Path, ...]:
    """The folders called `name` in families' folders: `templates`, `include`."""
    return tuple(home / name for home in families().values() if (home / name).is_dir())
