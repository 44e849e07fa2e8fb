"""Checks the cache, modules and their libraries, tuned files, and which kernels would run."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tilewright.architectures import routing
from tilewright.architectures.device import H200
from tilewright.base import paths, plugins, sets
from tilewright.base.spelling import listed
from tilewright.compile import prebuilt, trust
from tilewright.compile.damage import damaged
from tilewright.compile.disk import UNIT_DISK_BYTES
from tilewright.compile.keys import HeaderSet
from tilewright.compile.source_keys import SourceKeys
from tilewright.compile.store import Store
from tilewright.declarations import catalog
from tilewright.errors import (
    BundleError,
    CacheRefusedError,
    NoKernelError,
    UnreadableFileError,
    UnsupportedDeviceError,
)
from tilewright.libraries.builds import jit_allowed
from tilewright.selection.families import family_of
from tilewright.tools.doctor.findings import OK, PROBLEM, WARNING, Findings

if TYPE_CHECKING:
    from tilewright.architectures.device import DeviceProperties
    from tilewright.bundle.closed import Bundle
    from tilewright.libraries.registry import Registry
    from tilewright.selection.family import Family
    from tilewright.tools.doctor.machine import Machine

_FEW_UNITS = 16  # that a disk should have room for


def cache(machine: Machine) -> Findings:
    """Checks the cache: its folder, whether it is writable, and damaged entries."""
    store = Store()
    if not store.root.exists():
        above = next(folder for folder in store.root.parents if folder.exists())
        level, mend = _writable(os.access(above, os.W_OK))
        yield (
            level,
            f"{store.root}: nothing is built yet{'' if level == OK else ', and it cannot be made'}",
            mend,
        )
        return
    try:
        sizes = store.sizes()
        trust.check(store.root, store.root)
    except CacheRefusedError as error:
        yield PROBLEM, error.message, error.hint or ""
        return
    level, mend = _writable(os.access(store.root, os.W_OK))
    held = ", ".join(f"{name} {_mib(size)}" for name, size in sizes.items() if size)
    unwritable = "" if level == OK else ", cannot be written"
    yield level, f"{store.root}: {_mib(sum(sizes.values()))} ({held or 'empty'}){unwritable}", mend
    free = shutil.disk_usage(store.root).free
    if free < UNIT_DISK_BYTES * _FEW_UNITS:
        full = PROBLEM if free < UNIT_DISK_BYTES else WARNING
        yield (
            full,
            f"{_mib(free)} are free there",
            "Free some, or set TILEWRIGHT_CACHE to another disk's folder.",
        )
    else:
        yield OK, f"{_mib(free)} are free there", ""
    for module in dict.fromkeys(table.module for table in machine.context.registry.tables.values()):
        for reason in damaged(module, store, paths.include_dir()):
            yield WARNING, reason, f"`tilewright build {module}` sets it aside and links another."
    aside = store.listed("quarantine")
    if aside:
        yield OK, f"{len(aside)} damaged entries were set aside in {store.root / 'quarantine'}", ""


def _writable(writable: bool) -> tuple[str, str]:
    if writable:
        return OK, ""
    level = PROBLEM if jit_allowed() else WARNING  # what is in it can be used
    return level, "Set TILEWRIGHT_CACHE to a folder that can be written."


def modules(machine: Machine) -> Findings:
    """Checks the modules: the kernels that are listed, built, and run on the GPU."""
    registry, device = machine.context.registry, machine.device
    if not registry.tables:
        mend = "Run `tilewright generate` in a project, or set TILEWRIGHT_GENERATED."
        yield PROBLEM, f"no module in {' or '.join(map(str, registry.folders)) or 'no folder'}", mend
    total = 0
    for module, table in registry.tables.items():
        built = sum(registry.is_built(record) for record in table.values())
        runs = device and sum(routing.runs_on(record.arch, device.capability) for record in table.values())
        total += runs or 0
        here = "" if device is None else f", {runs} run on {device.name}"
        origin = f", of the set {registry.set_of(table)}" if len(registry.sets) > 1 else ""
        text = f"{module}: {len(table)} kernel{'s' * (len(table) != 1)}, {built} built{here}{origin}"
        if table.family in catalog.names():
            yield OK, text, ""
        else:
            mend = f"Install the package that brings {plugins.NAMESPACE}/{table.family}."
            yield WARNING, f"{text}; their family {table.family} is not installed, so no op runs them", mend
    yield from _repeated(registry)
    if device is not None and registry.tables and not total:
        mend = f"Add a spec with `arch: {routing.wanted_target(device.capability)}` (docs/specs.md)."
        yield PROBLEM, f"no kernel runs on {device.name}", mend


def _repeated(registry: Registry) -> Findings:
    """Checks kernels that two sets have: a copy of a shipped spec makes the same kernels again."""
    keys, copies = SourceKeys(paths.include_dir(), ""), Counter[str]()
    for kernel, used, passed_over in registry.shadowed():
        if _is_copy(registry, keys, kernel, passed_over):
            copies[f"of {used} have the source of those in {passed_over}"] += 1
        else:
            mend = f"Rename one of them, or leave a set out: {sets.VARIABLE} (docs/own_repository.md)."
            text = f"{kernel}: the kernel of {used} is used, another of that name in {passed_over} not"
            yield WARNING, text, mend
    for text, count in copies.items():
        yield OK, f"{count} kernels {text}", ""


def _is_copy(registry: Registry, keys: SourceKeys, kernel: str, passed_over: str) -> bool:
    """Whether the kernel of the set `passed_over` differs from the one that is used in comments alone."""
    home = registry.table_of(kernel)
    tables = registry.tables.values()
    copy = next(table for table in tables if registry.set_of(table) == passed_over and kernel in table)
    if home[kernel]._replace(sha256="") != copy[kernel]._replace(sha256=""):
        return False
    try:
        return keys.of(home, home[kernel]) == keys.of(copy, copy[kernel])
    except (FileNotFoundError, UnreadableFileError):  # nobody can build it
        return False


def libraries(machine: Machine) -> Findings:
    """Checks libraries that were built elsewhere: which can be used here, and why the others cannot."""
    headers = HeaderSet(paths.include_dir())
    for folder in sets.library_folders():
        modules = prebuilt.modules(folder)
        if not modules:
            yield WARNING, f"no libraries/<module>/<key>/library.json in {folder}", "Name the folder above."
        for module in modules:
            for library in prebuilt.examined(module, headers, [folder]):
                yield from _prebuilt(library, machine)


def _prebuilt(library: prebuilt.Prebuilt, machine: Machine) -> Findings:
    where = f"{library.module} in {library.folder}"
    mend = f"Install libraries of this tilewright's sources: `tilewright wheel {library.module}` makes them."
    if library.record is None:
        yield WARNING, f"{where} is passed over: {library.reason}", mend
        return
    kernels = library.record.kernels
    listing = machine.context.registry.tables.values()
    tables = [table for table in listing if table.module == library.module]
    stale = sorted({name for table in tables for name in library.lacking(table)})
    unlisted = [name for name in kernels if not any(name in table for table in tables)]
    used = len(kernels) - len(stale) - len(unlisted)
    yield OK, f"{where}: {used} of {len(kernels)} kernels can be used", ""
    if stale:
        yield WARNING, f"{where}: built from another source than the tables list: {listed(stale)}", mend
    if unlisted:
        yield WARNING, f"{where}: in no table: {listed(unlisted)}", mend
    try:
        trust.check(library.record.path, library.folder)
    except CacheRefusedError as error:
        yield PROBLEM, error.message, error.hint or ""


def tuned(machine: Machine) -> Findings:
    """Checks tuned files, and says why a file is not in force."""
    registry, device = machine.context.registry, machine.device
    if device is None:
        yield OK, "not checked: no GPU here, and each file is for one; --device names a GPU", ""
        return
    for name, family in _families(machine):
        files = paths.tuned_files(registry.folders, device.name, name)
        tuned = machine.context.tuned(family, device) if registry.runnable(name, device.capability) else None
        if tuned is None:
            yield OK, f"{name}: no tuned file; the cost model chooses", ""
            continue
        names = ", ".join(f"{path}{' (shipped)' * shipped}" for path, shipped in files)
        yield OK, f"{name}: {len(tuned.entries)} problems by {names}", ""
        for message in tuned.messages:
            yield (
                WARNING,
                message,
                "`tilewright tune` measures anew; what it finds counts before what is shipped.",
            )


def would_run(machine: Machine) -> Findings:
    """Finds the kernel of a call for one problem of each family."""
    context, device = machine.context, machine.device or H200
    if context.bundle is not None:
        yield from _bundled(context.bundle, device)
        return
    on = "" if machine.device else f" (if an {device.name} were here)"
    for name, family in _families(machine):
        targets = catalog.targets_of(name)
        if not any(routing.runs_on(target, device.capability) for target in targets):
            yield OK, f"{name}: not for {device.name}; its kernels are for {', '.join(targets)}", ""
            continue
        problem = family.words.make(family.words.example, {})
        try:
            choice = context.select(family, problem, device)
        except (NoKernelError, UnsupportedDeviceError) as error:
            yield WARNING, f"{problem}{on}: {error.message.splitlines()[0]}", error.hint or ""
            continue
        built = context.registry.is_built(choice.record)
        text = f"{problem}{on}: {choice.tactic}, by {choice.source}, {'built' if built else 'not built'}"
        mend = "" if built else f"`tilewright build --filter {choice.tactic.kernel}`"
        if built or machine.device is None:
            yield OK, text, ""
        elif not jit_allowed():
            yield PROBLEM, f"{text}, and TILEWRIGHT_JIT=0 forbids to", mend
        else:
            yield WARNING, f"{text}: the first call compiles it", mend


def _bundled(bundle: Bundle, device: DeviceProperties) -> Findings:
    """The calls that a bundle answers."""
    try:
        bundle.check_device(device)
    except BundleError as error:
        yield PROBLEM, error.message, error.hint or ""
        return
    yield OK, f"problems of {bundle.folder}: {bundle.summary}; a call of any other raises BundleError", ""


def _families(machine: Machine) -> Iterator[tuple[str, Family[Any]]]:
    """The families of which the tables have kernels."""
    listed = {table.family for table in machine.context.registry.tables.values()}
    for name in catalog.names():
        if name in listed:
            yield name, family_of(name)


def _mib(count: float) -> str:
    return f"{count / (1 << 30):.1f} GiB" if count >= 1 << 30 else f"{count / (1 << 20):.1f} MiB"
