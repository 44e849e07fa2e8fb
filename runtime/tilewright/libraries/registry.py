"""The registry of kernels: which kernels the tables list, are built, and run on a GPU."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from tilewright.architectures import routing
from tilewright.architectures.device import DeviceProperties
from tilewright.architectures.table import Capability
from tilewright.base import sets
from tilewright.base.forking import fork_safe_lock
from tilewright.base.sets import KernelSet
from tilewright.declarations import catalog
from tilewright.declarations.table import KernelRecord, Rows, Table, modules_without_table, read_tables
from tilewright.errors import NotBuiltError, TilewrightError
from tilewright.libraries import library as libraries
from tilewright.libraries import lookup_errors
from tilewright.libraries.builds import Builds, build_kernel, jit_allowed, not_built
from tilewright.libraries.built import BuiltLibrary, built_libraries
from tilewright.libraries.library import Library

log = logging.getLogger("tilewright")


class Shadowed(NamedTuple):
    """A kernel that is in two sets with different content, and the names of the sets."""

    kernel: str
    used: str
    passed_over: str


class Registry:
    """The kernels of the modules of one or several sets (`base/sets.py`).

    Args:
        generated: a folder of modules, or several folders and names of sets, of which the first counts most;
            default: the sets in force (TILEWRIGHT_GENERATED, installed packages, tilewright's own).
        libraries: finds the built libraries of a module, by its name; default: the build cache, then prebuilt
            libraries. `tilewright.compile.prebuilt.only(folder)` finds those of a folder alone.
        build: builds a kernel of a table, by its name, that a call needs; default: compiles it.

    If two sets have a kernel of one name, the first set's is the kernel; `shadowed` says which differ.

    Tables and the list of built libraries are read when they are first asked for; `refresh` reads the list
    again. The registry is thread-safe. While one thread builds a kernel, other threads get the built ones.
    """

    def __init__(
        self,
        generated: str | Path | Sequence[str | Path] | None = None,
        *,
        libraries: Callable[[str], Sequence[BuiltLibrary]] = built_libraries,
        build: Callable[[Table, str], None] = build_kernel,
    ) -> None:
        self.sets: tuple[KernelSet, ...] = sets.in_force() if generated is None else sets.of(generated)
        self.folders = tuple(kernel_set.generated for kernel_set in self.sets)  # of the tables
        self._find_libraries = libraries
        self._builds = Builds(build)
        self._lock = fork_safe_lock()
        self._tables: dict[str, Table] | None = None
        self._home: dict[str, Table] = {}
        self._runnable: dict[tuple[str, Capability], Rows] = {}
        self._libraries: dict[str, Sequence[BuiltLibrary]] = {}  # by module, without those that do not load
        self._holders: dict[str, BuiltLibrary | None] = {}  # by kernel, for kernels asked for
        self.changes = 0  # how often the set of built kernels changed; callers then choose kernels again
        self._unloadable: dict[str, dict[Path, str]] = {}  # the reasons, by module

    def __repr__(self) -> str:
        kernels = sum(map(len, self.tables.values()))
        names = ", ".join(kernel_set.name for kernel_set in self.sets)
        return f"<Registry: {kernels} kernels in {len(self.tables)} modules of {names}>"

    @property
    def tables(self) -> dict[str, Table]:
        """Tables by module, in the order of sets. A module whose name an earlier set has, too, is called
        `SET:MODULE`."""
        with self._lock:
            if self._tables is None:
                tables: dict[str, Table] = {}
                for kernel_set in self.sets:
                    listed = read_tables(kernel_set.generated)
                    if not listed and len(self.sets) > 1 and kernel_set.name == str(kernel_set.generated):
                        log.warning("passing over a kernel set: %s", lookup_errors.no_module([kernel_set]))
                    for table in listed:
                        repeated = table.module in tables
                        tables[f"{kernel_set.name}:{table.module}" if repeated else table.module] = table
                    for module in modules_without_table(kernel_set.generated):
                        log.warning(
                            "%s has no table.json: its kernels are passed over (tilewright generate)", module
                        )
                for table in tables.values():
                    for name in table:
                        self._home.setdefault(name, table)
                self._tables = tables
            return self._tables

    def set_of(self, table: Table) -> str:
        """The name of the set that a table is in."""
        generated = table.folder.parent
        return next(kernel_set.name for kernel_set in self.sets if kernel_set.generated == generated)

    def shadowed(self) -> Iterator[Shadowed]:
        """The kernels of later sets that have the name of another kernel in an earlier set."""
        for table in self.tables.values():
            for name in table:
                home = self._home[name]
                if home is not table and home[name] != table[name]:
                    yield Shadowed(name, self.set_of(home), self.set_of(table))

    def table_of(self, kernel: str) -> Table:
        """The table that lists a kernel. Raises NoKernelError, with similar names."""
        tables = self.tables
        if kernel not in self._home:
            raise lookup_errors.no_kernel(kernel, self._home, tables)
        return self._home[kernel]

    def record(self, kernel: str) -> KernelRecord:
        return self.table_of(kernel)[kernel]

    def kernels(self, family: str) -> list[KernelRecord]:
        """Every kernel of a family, in the order of modules and tables.

        Raises TableError if no module exists, NoKernelError if no such family exists.
        """
        return [table[name] for table, names in self._listed(family) for name in names]

    def _listed(self, family: str) -> list[tuple[Table, list[str]]]:
        with self._lock:
            self._check(family)
            of_family = (table for table in self.tables.values() if table.family == family)
            return [(table, [name for name in table if self._home[name] is table]) for table in of_family]

    def _check(self, family: str) -> None:
        """Raises if a family's kernels are not known, so that this is not taken for a family without
        kernels."""
        if not self.tables:
            raise lookup_errors.no_module(self.sets)
        families = {table.family for table in self.tables.values()}
        names = families if family in families else families.union(catalog.names())
        if family not in names:
            raise lookup_errors.no_family(family, names)

    def route(self, family: str, device: DeviceProperties) -> Rows:
        """The kernels of a family that run on a GPU.

        Raises UnsupportedDeviceError, before anything is launched, if there is none. The message names the
        GPU, the targets of existing kernels, the spec to extend and the command to run.
        """
        runnable = self.runnable(family, device.capability)
        if not runnable:
            families = sorted({table.family for table in self.tables.values()})
            kernels = (
                (record, self.is_built(record), self._home[record.name].spec)
                for record in self.kernels(family)
            )
            runnable_families = [name for name in families if self.runnable(name, device.capability)]
            raise lookup_errors.unsupported(family, device, kernels, runnable_families)
        return runnable

    def runnable(self, family: str, capability: Capability) -> Rows:
        """The kernels of a family that run on GPUs of a capability; the same object each time."""
        key = (family, capability)
        with self._lock:
            if key not in self._runnable:
                runs = functools.cache(lambda arch: routing.runs_on(arch, capability))
                listed = self._listed(family)
                self._runnable[key] = Rows(
                    [(table, [name for name in names if runs(table.arch(name))]) for table, names in listed]
                )
            return self._runnable[key]

    def is_built(self, record: KernelRecord) -> bool:
        """Whether a library holds the kernel, compiled from the source that the table names."""
        return self._holder(record.name) is not None

    def toolchains(self, family: str, capability: Capability) -> Iterator[tuple[int, Mapping[str, str]]]:
        """For each module, the number of its kernels that run on GPUs of the capability, and the toolchain of
        its newest library."""
        for table, names in self.runnable(family, capability).listed:
            for newest in self._listed_libraries(table.module)[:1] if names else ():
                yield len(names), newest.toolchain

    def obstacle(self, record: KernelRecord) -> str:
        """Why a kernel that is not built cannot be built here: the compilers have refused it, or no CUTLASS
        headers are new enough. "" if no obstacle is known."""
        return self._builds.obstacle(self.table_of(record.name), record)

    def refusal(self, record: KernelRecord) -> str:
        """Why the compilers refused a kernel in the last attempt; "" if they did not."""
        return self._builds.refusal(self.table_of(record.name), record)

    def buildable(self, record: KernelRecord) -> bool:
        return not self.obstacle(record)

    def refresh(self) -> None:
        """Forgets the list of libraries, those that did not load, and the kernels that did not compile."""
        self._builds.forget()
        self._forget_libraries()

    def _forget_libraries(self) -> None:
        with self._lock:
            self._libraries.clear()
            self._holders.clear()
            self._unloadable.clear()
            self.changes += 1

    def _holder(self, kernel: str) -> BuiltLibrary | None:
        """The first library that holds a kernel with the source that the table names."""
        try:
            return self._holders[kernel]
        except KeyError:
            table = self.table_of(kernel)
        with self._lock:
            libraries = self._listed_libraries(table.module)
            holder = next((library for library in libraries if library.holds(table[kernel])), None)
            self._holders[kernel] = holder
            return holder

    def _listed_libraries(self, module: str) -> Sequence[BuiltLibrary]:
        with self._lock:
            if module not in self._libraries:
                broken = self._unloadable.get(module, {})
                libraries = self._find_libraries(module)
                self._libraries[module] = [library for library in libraries if library.path not in broken]
            return self._libraries[module]

    def library(self, record: KernelRecord) -> Library:
        """The loaded library that holds a kernel. The kernel is built now if it is not built and may be.

        Raises NotBuiltError if building is forbidden (TILEWRIGHT_JIT=0), and what a build raises:
        UncompilableError if the compilers refuse the kernel, or have refused it.
        """
        table = self.table_of(record.name)
        library = self._load(table, record)
        if library is not None:
            return library
        if not jit_allowed():
            raise self.not_built(record)
        with self._builds.turn(record.name):  # other threads wait only for this kernel
            library = self._load(table, record)
            if library is None:
                try:
                    self._builds.build(table, record)
                finally:
                    self._forget_libraries()
                library = self._load(table, record)
        if library is None:
            raise TilewrightError(
                f"{record.name} was built, and no library of {table.module} holds it"
                f"{self._reasons(table.module)}"
            )
        return library

    def _load(self, table: Table, record: KernelRecord) -> Library | None:
        """The first library that holds the kernel and loads. A broken library must not hide the others."""
        with self._lock:
            while (holder := self._holder(record.name)) is not None:
                try:
                    library = libraries.load(holder.path)
                    if record.name in library.kernels:
                        return library
                    raise NotBuiltError(
                        f"{holder.path} does not hold {record.name}, though its record says so"
                    )
                except NotBuiltError as error:  # damaged, of another system, or replaced on disk meanwhile
                    log.warning("passing over a library: %s", error.message)
                    self._unloadable.setdefault(table.module, {})[holder.path] = error.message
                    del self._libraries[table.module]
                    self._holders.clear()
                    self.changes += 1
            return None

    def not_built(self, record: KernelRecord) -> NotBuiltError:
        """The error of `library` for a kernel that is not built and may not be built now."""
        table = self.table_of(record.name)
        return not_built(table, record, self._reasons(table.module))

    def _reasons(self, module: str) -> str:
        """Why libraries of a module were passed over, as the end of a message."""
        from tilewright.compile import prebuilt  # noqa: PLC0415 (a lookup needs no build)

        with self._lock:
            unloadable = list(self._unloadable.get(module, {}).values())
        return "".join(f"; {why}" for why in [*unloadable, *prebuilt.reasons(module)])
