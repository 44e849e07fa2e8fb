"""`build`: from rows of dispatch tables to libraries. Ahead of time and just in time go through it alike."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from tilewright.base import paths
from tilewright.compile import refusals
from tilewright.compile.compiler_cache import default_launcher, prepare
from tilewright.compile.compilers import COMPILERS, of, toolchain_for
from tilewright.compile.damage import set_aside_damaged
from tilewright.compile.jobs import available_cores, available_memory, bounded_jobs, unit_bytes
from tilewright.compile.library import LibraryRecord, libraries
from tilewright.compile.linking import Part, link
from tilewright.compile.planning import Module, Planner, Select, Unit
from tilewright.compile.progress import Progress
from tilewright.compile.report import BuildReport, UnitReport
from tilewright.compile.runner import run_jobs
from tilewright.compile.store import Entry, Store
from tilewright.compile.system import shell
from tilewright.compile.toolchain import HostToolchain
from tilewright.compile.unit import Job, Outcome
from tilewright.declarations.table import Table
from tilewright.errors import BuildError, NotBuiltError

log = logging.getLogger("tilewright")

_REFUSED_SHOWN = 5


def build(
    tables: Iterable[Table],
    select: Select = None,
    *,
    toolchain: HostToolchain | None = None,
    store: Store | None = None,
    destination: Store | None = None,
    include: Path | None = None,
    jobs: int | None = None,
    launcher: Sequence[str] | None = None,
    strict: bool = False,
    link_libraries: bool = True,
    dry_run: bool = False,
    progress: Progress | None = None,
) -> BuildReport:
    """Compiles the selected kernels that the store lacks, checks them all, and links the modules' libraries.

    `select` is a predicate, the names, or None for every kernel. A module's library holds all its kernels
    that are built; in a `destination` beside the store, the selected kernels alone (`prebuilt.only` and
    TILEWRIGHT_LIBRARIES find it there). `jobs` overrides the bound by cores and
    memory. `launcher` (e.g. ["ccache"]; default: TILEWRIGHT_LAUNCHER) is put before the compiler. `strict`
    fails kernels that spill, have a stack frame, serialise wgmma, race (nvcc/sass_hazards.py) or contradict
    their table; a kernel without the instructions its row expects fails always. What failed is in the report
    and in no library; nothing is raised for it. Damaged libraries are set aside and linked again. `dry_run`
    writes nothing.

    A kernel that needs CUTLASS headers, or newer ones, or a compiler that is not installed, is skipped, and
    the report says so. Raises NotBuiltError where one is selected by its name, or where a predicate takes no
    other kernels.
    Raises ToolchainError where something is missing and StoreError where the cache cannot be written.
    """
    started = time.monotonic()
    tables = list(tables)
    toolchain = toolchain_for(tables) if toolchain is None else toolchain
    store = Store() if store is None else store
    progress = Progress() if progress is None else progress
    if launcher is None:
        launcher = default_launcher()
    include = paths.include_dir() if include is None else include
    planner = Planner(toolchain, store, include, writes=not dry_run)
    modules = [Module.plan(table, select, planner) for table in tables]
    _refuse(modules, select)
    missing = longest_first(unit for module in modules for unit in module.units if unit.to_compile)
    for compiler, arch in sorted({(unit.record.compiler, unit.record.arch) for unit in missing}):
        COMPILERS[compiler].require(COMPILERS[compiler].part(toolchain, cutlass=True), arch)
    limit = jobs or _machine_limit(missing)
    outcomes: dict[str, Outcome] = {}
    if not dry_run:
        outcomes = _compile(
            modules,
            missing,
            planner,
            limit=limit,
            launcher=launcher,
            tables=link_libraries,
            progress=progress,
        )
    reports = [unit.report() for module in modules for unit in module.units]
    if not dry_run:
        _remember_refusals(store, reports)
    report = BuildReport(
        toolchain=toolchain.describe(),
        units=reports,
        libraries=[],
        problems=[],
        seconds=0.0,
        jobs=limit,
        strict=strict,
    )
    if link_libraries and not dry_run:
        for module in modules:
            _link(module, planner, outcomes, report, destination)
    report.seconds = time.monotonic() - started
    statuses = Counter(unit.status for unit in report.units)
    log.info(
        "build of %s: %s in %.1f s",
        ", ".join(module.table.module for module in modules),
        ", ".join(f"{count} {status}" for status, count in statuses.items()) or "nothing",
        report.seconds,
    )
    return report


def _compile(
    modules: Sequence[Module],
    missing: Sequence[Unit],
    planner: Planner,
    *,
    limit: int,
    launcher: Sequence[str],
    tables: bool,
    progress: Progress,
) -> dict[str, Outcome]:
    """Compiles the kernels that are missing and, with `tables`, the modules' tables that the store lacks.
    Sets damaged libraries aside before."""
    store = planner.store
    for module in modules:
        for damaged in set_aside_damaged(module.table.module, store, planner.include):
            log.warning("a damaged library: %s", damaged)
    work = {unit.key: planner.kernel_job(unit, limit, launcher) for unit in missing}
    if tables:
        tables_jobs = (planner.table_job(module.table, limit) for module in modules if module.anything)
        work.update({job.key: job for job in tables_jobs if job and store.entry(job.key) is None})
    if missing:
        prepare(launcher)
    outcomes = _run(store, list(work.values()), limit, progress)
    for unit in missing:
        unit.settle(outcomes[unit.key], store, work[unit.key])
    return outcomes


def longest_first(units: Iterable[Unit]) -> list[Unit]:
    """The units with CUTLASS first: they take a minute, others seconds, and a build would end with waiting
    for them."""
    return sorted(units, key=lambda unit: not unit.cutlass)


def _refuse(modules: Sequence[Module], select: Select) -> None:
    """Raises NotBuiltError if this toolchain can compile none of the kernels that the caller asks for."""
    units = [unit for module in modules for unit in module.units]
    skipped = [unit for unit in units if unit.skipped]
    by_name = select is not None and not callable(select)
    if not skipped or select is None or not (by_name or len(skipped) == len(units)):
        return
    lines = [f"{unit.record.name}: {unit.skipped}" for unit in skipped[:_REFUSED_SHOWN]]
    if (more := len(skipped) - _REFUSED_SHOWN) > 0:
        lines.append(f"and {more} more")
    remedies = dict.fromkeys(of(unit.record).remedy for unit in skipped)
    raise NotBuiltError("\n".join(lines), hint=" ".join(filter(None, remedies)) or None)


def _machine_limit(missing: Sequence[Unit]) -> int:
    memory = unit_bytes((unit.record.arch, unit.cutlass) for unit in missing)
    return bounded_jobs(available_cores(), available_memory(), memory)


def _run(store: Store, work: list[Job], limit: int, progress: Progress) -> dict[str, Outcome]:
    if not work:
        return {}
    store.sweep()
    progress.start(len(work), limit)
    try:
        return run_jobs(store, work, limit, progress)
    except KeyboardInterrupt:
        progress.interrupted()
        raise
    finally:
        progress.finish()


def _remember_refusals(store: Store, reports: Iterable[UnitReport]) -> None:
    """Remembers refused kernels in the cache, so that later calls do not try them again."""
    refused = refusals.remembered(store)
    for unit in reports:
        if unit.refusal:
            refusals.remember(store, unit.name, unit.key, unit.refusal)
        elif unit.data and unit.key in refused.get(unit.name, ()):
            refusals.forget(store, unit.name, unit.key)


def _link(
    module: Module,
    planner: Planner,
    outcomes: dict[str, Outcome],
    report: BuildReport,
    destination: Store | None,
) -> None:
    """Links the module's sound kernels, in the store with those its libraries held already; notes what went
    wrong."""
    if not module.anything:
        return
    failed = {unit.name for unit in report.failures if unit.module == module.table.module}
    parts = {unit.record.name: unit.part() for unit in module.units if unit.record.name not in failed}
    kernels = {name: part for name, part in parts.items() if part is not None}
    if not kernels:
        return
    try:
        table = _table_entry(module.table, planner, outcomes)
        for name, part in () if destination else _linked_before(module.table, planner):
            if name not in failed:
                kernels.setdefault(name, part)
        report.libraries.append(
            link(
                module.table.module,
                table,
                planner.table_headers(module.table),
                kernels,
                store=destination or planner.store,
                include=planner.include,
                toolchain=planner.toolchain_of(module.table),
            )
        )
    except BuildError as error:
        report.problems.append(str(error))


def _table_entry(table: Table, planner: Planner, outcomes: dict[str, Outcome]) -> Entry:
    job = planner.table_job(table, 1)
    if job is None:
        raise BuildError(f"{table.folder}/table.cc is missing", hint="Run `tilewright generate` to write it.")
    entry = planner.store.entry(job.key)
    if entry is None:
        outcome = outcomes.get(job.key, Outcome("failed", "was not built"))
        errors = "\n".join(outcome.errors)
        raise BuildError(f"{job.source}: {outcome.message}\n{errors}\n  reproduce: {shell(job.command)}")
    return entry


def _linked_before(table: Table, planner: Planner) -> Iterable[tuple[str, Part]]:
    """Kernels of the module's present libraries that are still what the table asks for, and sound."""
    present: list[LibraryRecord] = libraries(table.module, store=planner.store, include=planner.include)
    for name in sorted({name for library in present for name in library.kernels}):
        if name not in table:
            continue
        unit = planner.unit(table, table[name])
        part = unit.part()
        if part is not None and not any(
            finding.fatal(False)
            for finding in of(unit.record).judge(unit.record, part.entry.report, unit.cutlass)
        ):
            yield name, part
