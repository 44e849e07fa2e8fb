"""Kernel sets: the folders of generated modules that a process uses, in the order in which they count.

A set is tilewright's own (`shipped`), that of an installed package of kernels, that of a plugin family, or a
folder. If two sets have a kernel of one name, the first set's counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from tilewright.base import paths, plugins

VARIABLE = "TILEWRIGHT_GENERATED"
SHIPPED = "shipped"  # the name of tilewright's own set
ONLY = "only"  # a word of the variable: only the sets that the variable names


class KernelSet(NamedTuple):
    """A folder of modules, and its name in lists and messages: for a folder that a user names, its path."""

    name: str
    generated: Path


def in_force() -> tuple[KernelSet, ...]:
    """The sets of a process: those that TILEWRIGHT_GENERATED names, then those of installed packages and of
    plugin families, and tilewright's own last. The word `only` leaves out what the variable does not name."""
    words = paths.listed(VARIABLE)
    named = [named_set(word) for word in words if word != ONLY]
    return _unique(named if ONLY in words else [*named, *_installed(), shipped()])


def beside(folder: Path) -> tuple[KernelSet, ...]:
    """A folder first, then the sets in force: what a project's kernels stand beside."""
    return _unique([named_set(folder), *in_force()])


def of(words: str | Path | Iterable[str | Path]) -> tuple[KernelSet, ...]:
    """Exactly the sets that are named, in this order."""
    return _unique(map(named_set, [words] if isinstance(words, (str, Path)) else words))


def named_set(word: str | Path) -> KernelSet:
    """The set that a word means: `shipped`, an installed set's name, else the path of a folder."""
    present = (shipped(), *_installed())
    by_name = (kernel_set for kernel_set in present if kernel_set.name == word)
    by_folder = (kernel_set for kernel_set in present if kernel_set.generated == Path(word))
    return next(by_name, None) or next(by_folder, None) or KernelSet(str(word), Path(word))


def is_name(word: str) -> bool:
    """Whether a word of TILEWRIGHT_GENERATED is not a folder's path: `only`, or the name of a set."""
    return word == ONLY or any(present.name == word for present in (shipped(), *_installed()))


def shipped() -> KernelSet:
    """The set that comes with tilewright."""
    return KernelSet(SHIPPED, paths.shipped_generated_dir())


def first_folder() -> Path:
    """The folder of modules that a command without a project is about: the first that TILEWRIGHT_GENERATED
    names, else tilewright's own."""
    named = [named_set(word) for word in paths.listed(VARIABLE) if word != ONLY]
    return (named[0] if named else shipped()).generated


def library_folders() -> tuple[Path, ...]:
    """The folders of built libraries besides the cache: those that TILEWRIGHT_LIBRARIES names, then those of
    installed packages. Each holds `libraries/<module>/<key>/`."""
    folders = [Path(word).absolute() for word in paths.listed("TILEWRIGHT_LIBRARIES")]
    folders += [home for home in plugins.kernel_packages().values() if (home / "libraries").is_dir()]
    return tuple(dict.fromkeys(folders))


def _installed() -> Iterator[KernelSet]:
    for name, home in plugins.kernel_packages().items():
        if (home / "generated").is_dir():
            yield KernelSet(name, home / "generated")
    for name, folder in plugins.generated_folders():
        yield KernelSet(name, folder)


def _unique(sets: Iterable[KernelSet]) -> tuple[KernelSet, ...]:
    """The sets without a folder's second mention."""
    by_folder: dict[Path, KernelSet] = {}
    for kernel_set in sets:
        by_folder.setdefault(kernel_set.generated.absolute(), kernel_set)
    return tuple(by_folder.values())
