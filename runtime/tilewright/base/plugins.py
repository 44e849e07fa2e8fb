"""Plugins: families and kernels of other packages, in two namespace packages.

A namespace package has no `__init__.py`, and consists of all folders of its name on sys.path. So any
distribution may put a family or kernels into it, and listing them is listing folders.

`tilewright_families/<family>` has the same modules as a family that comes with tilewright
(`families/<family>/`), folders `templates` and `include`, and, where it is installed, `generated`.

`tilewright_kernels/<name>` holds kernels of families that exist already, and no Python: `generated` (modules)
with `tuned` beside it, `libraries` (built libraries, as a build cache holds them), or all of these.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from pathlib import Path
from pkgutil import iter_modules

NAMESPACE = "tilewright_families"
KERNELS = "tilewright_kernels"


@cache
def families() -> dict[str, Path]:
    """The folder of each plugin family, by its name. The family is not imported."""
    places = _places(NAMESPACE)
    return {
        module.name: Path(place, module.name)
        for place in reversed(places)
        for module in iter_modules([place])
        if module.ispkg
    }


@cache
def kernel_packages() -> dict[str, Path]:
    """The folder of each installed package of kernels, by its name, in the order of names."""
    folders = {path.name: path for place in reversed(_places(KERNELS)) for path in Path(place).iterdir()}
    return {name: folders[name] for name in sorted(folders) if name.isidentifier() and folders[name].is_dir()}


def _places(namespace: str) -> list[str]:
    """The folders on sys.path that a namespace package consists of."""
    spec = find_spec(namespace)
    return list(spec.submodule_search_locations or ()) if spec is not None else []


def folders(name: str) -> tuple[Path, ...]:
    """The folders called `name` in families' folders: `templates`, `include`."""
    return tuple(home / name for home in families().values() if (home / name).is_dir())


def generated_folders() -> list[tuple[str, Path]]:
    """The folders of the modules that families bring, each with the family's name: `generated` in a family's
    folder, where an installed wheel has it, or beside `tilewright_families`, where a project has it."""
    return [
        (name, folder)
        for name, home in families().items()
        for folder in (home / "generated", home.parents[1] / "generated")
        if folder.is_dir()
    ]
