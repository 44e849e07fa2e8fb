"""Plugins: families of other packages, in the namespace package `tilewright_families`.

A namespace package has no `__init__.py`, and consists of all folders of its name on sys.path. So any
distribution may put a family into it, and listing the families is listing folders. A family's folder has the
same modules as a family that comes with tilewright (`families/<family>/`), folders `templates` and `include`,
and, where it is installed, `generated`.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path
from pkgutil import iter_modules

NAMESPACE = "tilewright_families"


@cache
def families() -> dict[str, Path]:
    """The folder of each plugin family, by its name. The family is not imported."""
    spec = find_spec(NAMESPACE)
    places = list(spec.submodule_search_locations or ()) if spec is not None else []
    return {
        module.name: Path(place, module.name)
        for place in reversed(places)
        for module in iter_modules([place])
        if module.ispkg
    }


def folders(name: str) -> tuple[Path, ...]:
    """The folders called `name` in families' folders: `templates`, `include`."""
    return tuple(home / name for home in families().values() if (home / name).is_dir())


def generated_folders() -> tuple[Path, ...]:
    """The folders of the modules that families bring: `generated` in a family's folder, where an installed
    wheel has it, or beside `tilewright_families`, where a project has it."""
    pairs = ((home / "generated", home.parents[1] / "generated") for home in families().values())
    return tuple(dict.fromkeys(folder for pair in pairs for folder in pair if folder.is_dir()))
