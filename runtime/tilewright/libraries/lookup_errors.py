"""The errors of lookups in the registry: what was asked for, what there is, and what to do."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from tilewright.architectures import routing
from tilewright.base import paths, sets
from tilewright.base.sets import KernelSet
from tilewright.declarations import catalog
from tilewright.declarations.table import find_tables
from tilewright.errors import NoKernelError, TableError, UnsupportedDeviceError

if TYPE_CHECKING:
    from tilewright.architectures.device import DeviceProperties
    from tilewright.declarations.table import KernelRecord

MOST_NAME = 200  # characters of a name in a message


def no_module(kernel_sets: Sequence[KernelSet]) -> TableError:
    """The error for sets without a module."""
    if not kernel_sets:
        hint = f"Name a folder of modules beside `{sets.ONLY}`, or unset the variable."
        return TableError(f"{sets.VARIABLE}={sets.ONLY} names no kernels", hint=hint)
    folder = kernel_sets[0].generated
    inner = folder / "generated"
    if kernel_sets[0] == sets.shipped() and not paths.in_checkout():
        meant = "tilewright was imported without its kernels, as from a zip file. Install its wheel."
    else:
        meant = f"Did you mean {inner}?" if find_tables(inner) else "`tilewright generate` writes them."
    what = "holds no module" if folder.is_dir() else "is no folder"
    return TableError(f"{folder} {what}: there is no <module>/table.json in it", hint=meant)


def no_kernel(kernel: str, names: Iterable[str], modules: Iterable[str]) -> NoKernelError:
    """The error for a name that no table lists, with similar names."""
    from tilewright.base.spelling import listed  # noqa: PLC0415 (only a message needs it)

    close = _close(kernel[:MOST_NAME], names, 3)
    hint = f"Did you mean {', '.join(close)}?" if close else "`tilewright list` shows what there is."
    name = kernel if kernel.isprintable() and len(kernel) <= MOST_NAME else ascii(kernel[:MOST_NAME])
    return NoKernelError(
        f"no table lists a kernel named {name} (modules: {listed(list(modules))})", hint=hint
    )


def no_family(family: str, names: Collection[str]) -> NoKernelError:
    """The error for a family that does not exist."""
    close = _close(family, names, 1)
    hint = f"Did you mean {close[0]}?" if close else f"There are {', '.join(sorted(names))}."
    return NoKernelError(f"there is no family named {family}", hint=hint)


def unsupported(
    family: str,
    device: DeviceProperties,
    kernels: Iterable[tuple[KernelRecord, bool, str]],
    runnable: Sequence[str],
) -> UnsupportedDeviceError:
    """The error for a GPU on which no kernel of a family runs.

    kernels: all of the family, each with whether it is built and the spec that lists it.
    runnable: the families that have kernels for the GPU.
    """
    by_arch: dict[str, int] = {}
    built: dict[str, int] = {}
    specs: dict[str, None] = {}
    for record, is_built, spec in kernels:
        by_arch[record.arch] = by_arch.get(record.arch, 0) + 1
        built[record.arch] = built.get(record.arch, 0) + is_built
        specs.setdefault(spec)
    targets = ", ".join(f"{arch} ({count} kernels, {built[arch]} built)" for arch, count in by_arch.items())
    return UnsupportedDeviceError(
        f"no {family} kernel runs on {device.name}, {routing.describe(device.capability)}; "
        f"there are kernels for: {targets or 'nothing'}",
        hint=routing.advice(family, catalog.targets_of(family), device.capability, list(specs), runnable),
    )


def _close(word: str, names: Iterable[str], most: int) -> list[str]:
    """The names that a misspelt word may mean."""
    from difflib import get_close_matches  # noqa: PLC0415 (a millisecond, and most words are right)

    return get_close_matches(word, names, most)
