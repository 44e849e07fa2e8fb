"""CUTLASS: the place of its headers, their release, and whether that release is enough for a kernel.

A release is text, "4.2.0". A kernel may need at least some release ("4.5"); "" means any.
"""

from __future__ import annotations

import functools
import os
import re
from pathlib import Path

from tilewright.compile.system import package_folders


def headers_release(include: Path) -> str:
    """The release that the headers below `include` say they are."""
    text = (include / "cutlass" / "version.h").read_text(encoding="utf-8")
    return ".".join(re.findall(r"#define CUTLASS_(?:MAJOR|MINOR|PATCH)\s+(\d+)", text))


def satisfies(release: str, needed: str) -> bool:
    """Whether headers of `release` compile a kernel that needs `needed` at least."""
    return _numbers(release) >= _numbers(needed)


def keyed_release(release: str, needed: str) -> str:
    """The release that stands for `release` in the source key of a kernel that needs `needed`.

    Without a need: `release` itself. Else `release` as precisely as the need is stated (4.5 of 4.5.0); but
    never less than the need, with which alone there is something to compile. So a machine that has older
    headers, or none, can tell whether a record is of the kernel as it stands.
    """
    if not needed:
        return release
    if not satisfies(release, needed):
        return needed
    return ".".join(release.split(".")[: len(_numbers(needed))])


def _numbers(release: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", release)))


def find_cutlass(explicit: str | Path | None, tried: list[str]) -> Path | None:
    """The include folder: `explicit`, else CUTLASS_PATH, else the nvidia-cutlass wheel's.

    `tried` gets a line for each of these places where it is not.
    """
    candidates: list[tuple[str, Path]] = []
    if explicit is not None:
        candidates.append(("--cutlass", Path(explicit)))
    elif named := os.environ.get("CUTLASS_PATH"):
        candidates.append(("CUTLASS_PATH", Path(named)))
    else:
        folders = package_folders("cutlass_library")
        candidates += [("the nvidia-cutlass wheel", folder / "source") for folder in folders]
    for origin, place in candidates:
        for include in (place / "include", place):
            if (include / "cutlass" / "cutlass.h").is_file():
                return include.resolve()
        tried.append(f"CUTLASS from {origin}: no include/cutlass/cutlass.h in {place}")
    return None


@functools.cache
def installed_release(path: str | None) -> str:
    """The release of the headers that `find_cutlass` finds if CUTLASS_PATH is `path`; empty without any."""
    include = find_cutlass(path, [])
    return "" if include is None else headers_release(include)
