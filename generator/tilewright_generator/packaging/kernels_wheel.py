"""The content of a wheel of built kernels: libraries and, for a project's own modules, tables and sources.

It is a package of `tilewright_kernels` (`tilewright.base.plugins`), which a process finds by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from tilewright import __version__
from tilewright.base import paths
from tilewright.base.plugins import KERNELS
from tilewright.compile.library import LibraryRecord
from tilewright.declarations.table import Table
from tilewright_generator.packaging.elf import platform_tag
from tilewright_generator.packaging.wheel_file import Wheel


def kernels_wheel(
    name: str, version: str, machine: str, libraries: Sequence[LibraryRecord], tables: Sequence[Table]
) -> Wheel:
    """The wheel of these libraries. Modules of `tables` that do not come with tilewright go into it whole,
    with the tuned files of their project."""
    home = f"{KERNELS}/{package_name(name)}"
    files = {
        f"{home}/libraries/{library.module}/{library.key}/{path.name}": path
        for library in libraries
        for path in (library.path, library.path.with_name("library.json"))
    }
    for table in tables:
        generated = table.folder.parent
        if generated != paths.shipped_generated_dir():
            folders = {"generated": (generated, table.module), "tuned": (paths.shipped_dir(generated), "")}
            for folder, (root, part) in folders.items():
                files |= {f"{home}/{folder}/{path.relative_to(root)}": path for path in _files(root / part)}
    kernels = sum(len(library.kernels) for library in libraries)
    modules = ", ".join(library.module for library in libraries)
    return Wheel(
        name=name,
        version=version,
        platform=platform_tag([library.path for library in libraries], machine),
        summary=f"{kernels} built kernels of tilewright {__version__}: {modules}",
        requires=["tilewright"],
        files=files,
    )


def package_name(name: str) -> str:
    """The name of a distribution's folder, which is the name of its kernel set."""
    return name.replace("-", "_").replace(".", "_").lower()


def _files(folder: Path) -> Iterator[Path]:
    """What is committed of a folder: no link and no lock."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink() and not path.name.endswith(".lock"):
            yield path
