"""All releases of nvcc and of CUTLASS's headers on this machine, for `tilewright toolchain`.

A build takes the first of each in the order of `toolchain.py` and `cutlass.py`. This module looks in more
places: every folder of PATH, /usr/local, and every installed wheel that holds CUTLASS's headers, such as
flashinfer-python.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tilewright.compile.nvcc.cutlass import headers_release
from tilewright.compile.nvcc.toolchain import MINIMUM_NVCC
from tilewright.compile.system import package_folders, run
from tilewright.errors import ToolchainError

_VERSION_HEADER = "cutlass/version.h"


class Compiler(NamedTuple):
    """An nvcc."""

    origin: str  # the place where it was looked for
    path: Path
    release: str  # "13.0.88"
    codes: frozenset[int]  # the architectures that it compiles for: 90, 100, 121
    problem: str = ""  # why a build does not take it


class Headers(NamedTuple):
    """CUTLASS's headers."""

    origin: str  # an option, a variable, or the wheel that holds them
    include: Path
    release: str  # "4.5.0"


def compilers() -> list[Compiler]:
    """Every nvcc of this machine, the first in a build's order first. Wrappers of one program are listed once
    each, because a build would name them."""
    answer: dict[Path, Compiler] = {}
    for origin, path in _nvcc_paths():
        if path not in answer and os.access(path, os.X_OK) and not path.is_dir():
            answer[path] = _compiler(origin, path)
    return list(answer.values())


def _nvcc_paths() -> Iterator[tuple[str, Path]]:
    for name in ("CUDA_HOME", "CUDA_PATH"):
        if home := os.environ.get(name):
            yield name, Path(home, "bin", "nvcc").absolute()
    for name in filter(None, os.environ.get("PATH", "").split(os.pathsep)):
        yield "PATH", Path(name, "nvcc").absolute()
    for folder in package_folders("nvidia"):
        for toolkit in sorted(folder.glob("cu[0-9]*")):
            yield "pip wheels", toolkit / "bin" / "nvcc"
    for toolkit in sorted(Path("/usr/local").glob("cuda*")):
        yield "/usr/local", toolkit.resolve() / "bin" / "nvcc"


def _compiler(origin: str, path: Path) -> Compiler:
    try:
        version = run([str(path), "--version"])
        listed = run([str(path), "--list-gpu-code"])
    except ToolchainError as error:
        return Compiler(origin, path, "", frozenset(), error.message)
    release = re.search(r"\bV(\d+)\.(\d+)\.(\d+)", version)
    if release is None:
        return Compiler(origin, path, "", frozenset(), "it does not say its release")
    old = (int(release[1]), int(release[2])) < MINIMUM_NVCC
    problem = f"older than {'.'.join(map(str, MINIMUM_NVCC))}" if old else ""
    codes = frozenset(map(int, re.findall(r"sm_(\d+)", listed)))
    return Compiler(origin, path, ".".join(release.groups()), codes, problem)


def headers() -> list[Headers]:
    """All CUTLASS headers of this machine that a variable names or an installed wheel holds."""
    answer: dict[Path, Headers] = {}
    for origin, include in _header_folders():
        if (include / "cutlass" / "cutlass.h").is_file() and (include / _VERSION_HEADER).is_file():
            place = include.resolve()
            answer.setdefault(place, Headers(origin, place, headers_release(place)))
    return list(answer.values())


def _header_folders() -> Iterator[tuple[str, Path]]:
    if named := os.environ.get("CUTLASS_PATH"):
        yield "CUTLASS_PATH", Path(named, "include")
        yield "CUTLASS_PATH", Path(named)
    for distribution in importlib.metadata.distributions():
        for file in distribution.files or ():
            if file.as_posix().endswith(f"/{_VERSION_HEADER}"):
                include = Path(str(distribution.locate_file(file))).parents[1]
                yield f"the {distribution.metadata['Name']} wheel", include
