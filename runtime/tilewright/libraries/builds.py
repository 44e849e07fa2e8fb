"""Builds that calls need: whether a kernel may be built now, the obstacles, and the build itself."""

from __future__ import annotations

import logging
import os
import shlex
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tilewright.base import paths, sets
from tilewright.base.forking import fork_safe_lock
from tilewright.base.variables import value_of
from tilewright.declarations.table import KernelRecord, Table
from tilewright.errors import NotBuiltError, TilewrightError, UncompilableError

if TYPE_CHECKING:
    from tilewright.compile.planning import Planner
    from tilewright.compile.store import Store

log = logging.getLogger("tilewright")


def jit_allowed() -> bool:
    """Whether a kernel may be compiled when a call needs it: TILEWRIGHT_JIT is not 0."""
    return value_of("TILEWRIGHT_JIT") != "0"


def built_preferred() -> bool:
    """Whether a built kernel may replace a slightly better one that would have to be compiled:
    TILEWRIGHT_JIT is `lazy`. By default a call waits for the compiler, so that its kernel, and with it the
    bits of its result, do not depend on what happens to be built."""
    return value_of("TILEWRIGHT_JIT") == "lazy"


def build_kernel(table: Table, kernel: str) -> None:
    """Compiles a kernel and links it with its module's other built kernels. Raises what a build raises, and
    UncompilableError if the compilers refuse the kernel."""
    from tilewright.compile import building, progress  # noqa: PLC0415

    report = building.build([table], select=[kernel], progress=progress.progress_for(in_call=True))
    report.raise_for_failures()


class Builds:
    """The builds of one registry. Safe under threads and forks."""

    def __init__(self, build: Callable[[Table, str], None] = build_kernel) -> None:
        self._build = build
        self._lock = fork_safe_lock()
        self._under_way: dict[
            tuple[int, str], threading.Lock
        ] = {}  # by process, because a child builds for itself
        self._refused: dict[str, str] = {}  # by kernel, why it was refused; "" if it was not
        self._remembered: dict[str, set[str]] | None = None  # keys of refused kernels in the cache
        self._planners: dict[str, Planner] = {}  # by compiler

    def forget(self) -> None:
        """Forgets refusals; the next question reads them again."""
        with self._lock:
            self._refused.clear()
            self._planners.clear()
            self._remembered = None

    @contextmanager
    def turn(self, kernel: str) -> Iterator[None]:
        """A lock that is held while a kernel is built, so that two threads do not build it twice."""
        with self._lock:
            lock = self._under_way.setdefault((os.getpid(), kernel), threading.Lock())
        with lock:
            yield

    def build(self, table: Table, record: KernelRecord) -> None:
        """Builds a kernel. Raises UncompilableError if the compilers refuse it, or have refused it."""
        if reason := self.refusal(table, record):
            raise UncompilableError(reason, hint=f"`{command(table, record)}` tries it again.")
        log.warning(
            "compiling %s (seconds, or minutes with CUTLASS; `%s` does it ahead of time)",
            record.name,
            command(table, record),
        )
        try:
            self._build(table, record.name)
        except UncompilableError as error:
            self._note(record, error.message)
            raise

    def obstacle(self, table: Table, record: KernelRecord) -> str:
        """Why a kernel that is not built cannot be built here; "" if no obstacle is known."""
        from tilewright.compile import compilers  # noqa: PLC0415 (a lookup needs no build)

        if reason := compilers.of(record).obstacle(record):
            return reason
        return "it does not compile" if self.refusal(table, record) else ""

    def refusal(self, table: Table, record: KernelRecord) -> str:
        """Why the compilers refused a kernel in the last attempt with this source and toolchain, in this
        process or another; "" if they did not."""
        with self._lock:
            if record.name not in self._refused:
                if reason := self._recall(table, record):
                    self._note(record, reason)
                else:
                    self._refused[record.name] = ""
            return self._refused[record.name]

    def _note(self, record: KernelRecord, reason: str) -> None:
        """Remembers a refusal, and logs it once."""
        with self._lock:
            self._refused[record.name] = reason
        log.warning(
            "%s does not compile here, and is passed over until its source or the toolchain changes: %s",
            record.name, reason,
        )  # fmt: skip

    def _recall(self, table: Table, record: KernelRecord) -> str:
        from tilewright.compile import refusals  # noqa: PLC0415
        from tilewright.compile.store import Store  # noqa: PLC0415

        store = Store()
        if self._remembered is None:
            self._remembered = refusals.remembered(store)
        keys = self._remembered.get(record.name)
        if not keys:
            return ""
        try:
            unit = self._plan(store, table).unit(table, record)
        except TilewrightError as error:  # for instance, no toolchain: a build will say so
            log.debug("%s was refused once, and the key it has now is not known: %s", record.name, error)
            return ""
        if unit.entry is not None:  # compiled, but perhaps not as its row demands
            return unit.report().refusal
        return refusals.reason(store, record.name, unit.key) if unit.key in keys else ""

    def _plan(self, store: Store, table: Table) -> Planner:
        """The planner of a module's compiler, made once, because finding a toolchain takes half a second."""
        from tilewright.compile.compilers import of_table, toolchain_for  # noqa: PLC0415
        from tilewright.compile.planning import Planner  # noqa: PLC0415

        compiler = of_table(table).name
        if compiler not in self._planners:
            self._planners[compiler] = Planner(toolchain_for([table]), store, paths.include_dir())
        return self._planners[compiler]


def command(table: Table, record: KernelRecord) -> str:
    """The command that builds a kernel ahead of time."""
    kernel_set, where = sets.named_set(table.folder.parent), ""
    if kernel_set.name == sets.SHIPPED:
        where = " --shipped"
    elif kernel_set.name != str(kernel_set.generated):  # an installed package's, or a plugin family's
        where = f" --root {shlex.quote(str(kernel_set.generated.parent))}"
    return f"tilewright build{where} --filter {shlex.quote(record.name)}"


def not_built(table: Table, record: KernelRecord, reasons: str) -> NotBuiltError:
    """The error for a kernel that is not built and may not be built now. `reasons`: why libraries were passed
    over, as the end of a sentence."""
    return NotBuiltError(
        f"{record.name} is not built, or was built from another source, and TILEWRIGHT_JIT=0 "
        f"forbids to build it now{reasons}",
        hint=f"Run `{command(table, record)}`.",
    )
