"""Builds that calls need: whether a kernel may be built now, what speaks against it, and the build itself."""

from __future__ import annotations

import functools
import logging
import os
import shlex
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tilewright.base import paths
from tilewright.base.forking import fork_safe_lock
from tilewright.declarations.table import KernelRecord, Table
from tilewright.errors import NotBuiltError, TilewrightError, UncompilableError

if TYPE_CHECKING:
    from tilewright.compile.planning import Planner
    from tilewright.compile.store import Store

log = logging.getLogger("tilewright")


def jit_allowed() -> bool:
    """Whether a kernel may be compiled when a call needs it: TILEWRIGHT_JIT is not 0."""
    return os.environ.get("TILEWRIGHT_JIT", "1") != "0"


@functools.cache
def headers_release(path: str | None) -> str | None:
    """The release of the CUTLASS headers of a build where CUTLASS_PATH is `path`; None without any."""
    from tilewright.compile import cutlass  # noqa: PLC0415 (a lookup needs no build)

    include = cutlass.find_cutlass(path, [])
    return None if include is None else cutlass.headers_release(include)


def build_kernel(table: Table, kernel: str) -> None:
    """Compiles a kernel and links it with what its module has. Raises what a build raises, UncompilableError
    where the compilers refuse the kernel."""
    from tilewright.compile import building, progress  # noqa: PLC0415

    report = building.build([table], select=[kernel], progress=progress.progress_for())
    report.raise_for_failures()


class Builds:
    """The builds of one registry. Safe under threads and forks."""

    def __init__(self, build: Callable[[Table, str], None] = build_kernel) -> None:
        self._build = build
        self._lock = fork_safe_lock()
        self._under_way: dict[tuple[int, str], threading.Lock] = {}  # by process: a child builds for itself
        self._refused: dict[str, str] = {}  # by kernel, why it was refused; "" where it was not
        self._remembered: dict[str, set[str]] | None = None  # in the cache
        self._planner: Planner | None = None

    def forget(self) -> None:
        """Looks again, when next asked, for what was refused."""
        with self._lock:
            self._refused.clear()
            self._remembered = self._planner = None

    @contextmanager
    def turn(self, kernel: str) -> Iterator[None]:
        """Held while a kernel is built, so that two threads do not build it twice."""
        with self._lock:
            lock = self._under_way.setdefault((os.getpid(), kernel), threading.Lock())
        with lock:
            yield

    def build(self, table: Table, record: KernelRecord) -> None:
        """Builds a kernel. Raises UncompilableError where the compilers refuse it, or have."""
        if reason := self.refusal(table, record):
            raise UncompilableError(reason, hint=f"`{command(table, record)}` tries it again.")
        log.warning(
            "compiling %s (seconds, or minutes where CUTLASS is in it; `%s` does it ahead of time)",
            record.name,
            command(table, record),
        )
        try:
            self._build(table, record.name)
        except UncompilableError as error:
            self._note(record, error.message)
            raise

    def obstacle(self, table: Table, record: KernelRecord) -> str:
        """Why a kernel that is not built cannot be built here; "" where nothing is known to be in the way."""
        if record.cutlass:
            from tilewright.compile.cutlass import satisfies  # noqa: PLC0415 (asked of few kernels)

            release = headers_release(os.environ.get("CUTLASS_PATH"))
            if release is None or not satisfies(release, record.cutlass):
                return f"it needs CUTLASS {record.cutlass}"
        return "it does not compile" if self.refusal(table, record) else ""

    def refusal(self, table: Table, record: KernelRecord) -> str:
        """Why the compilers refused a kernel when it was last tried from this source with this toolchain, by
        this process or another; "" where they did not."""
        with self._lock:
            if record.name not in self._refused:
                if reason := self._recall(table, record):
                    self._note(record, reason)
                else:
                    self._refused[record.name] = ""
            return self._refused[record.name]

    def _note(self, record: KernelRecord, reason: str) -> None:
        """Remembers, and says so once."""
        with self._lock:
            self._refused[record.name] = reason
        log.warning(
            "%s does not compile here, and is passed over until its source or the toolchain is another: %s",
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
            unit = self._plan(store).unit(table, record)
        except TilewrightError as error:  # no toolchain, say: a build will say so
            log.debug("%s was refused once, and the key it has now is not known: %s", record.name, error)
            return ""
        if unit.entry is not None:  # compiled, and perhaps not to what its row demands
            return unit.report().refusal
        return refusals.reason(store, record.name, unit.key) if unit.key in keys else ""

    def _plan(self, store: Store) -> Planner:
        """To find a toolchain takes half a second."""
        from tilewright.compile.planning import Planner  # noqa: PLC0415
        from tilewright.compile.toolchain import find_toolchain  # noqa: PLC0415

        if self._planner is None:
            self._planner = Planner(find_toolchain(), store, paths.include_dir())
        return self._planner


def command(table: Table, record: KernelRecord) -> str:
    """What builds a kernel ahead of time."""
    shipped = " --shipped" if table.folder.parent == paths.shipped_generated_dir() else ""
    return f"tilewright build{shipped} --filter {shlex.quote(record.name)}"


def not_built(table: Table, record: KernelRecord, reasons: str) -> NotBuiltError:
    """Of a kernel that is not built, where it may not be built now; `reasons` is why libraries were passed
    over, to go at the end of a sentence."""
    return NotBuiltError(
        f"{record.name} is not built, or was built from another source, and TILEWRIGHT_JIT=0 "
        f"forbids to build it now{reasons}",
        hint=f"Run `{command(table, record)}`.",
    )
