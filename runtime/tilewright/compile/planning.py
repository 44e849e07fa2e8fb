"""Plans a build: the key of every selected kernel, its entry in the store, and jobs for missing kernels."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tilewright.base import plugins, reading
from tilewright.compile import commands, compilers, shell_text
from tilewright.compile.compiler import Compiler
from tilewright.compile.findings import Finding
from tilewright.compile.keys import digest
from tilewright.compile.linking import Part
from tilewright.compile.report import UnitReport
from tilewright.compile.source_keys import SourceKeys
from tilewright.compile.store import Entry, Store
from tilewright.compile.system import shell, tvm_ffi_folder
from tilewright.compile.toolchain import HostToolchain
from tilewright.compile.trees import tree_digest
from tilewright.compile.unit import Job, Outcome
from tilewright.declarations.table import KernelRecord, Table
from tilewright.errors import CacheRefusedError, ToolchainError, UnreadableFileError

Select = Callable[[KernelRecord], bool] | Collection[str] | None


@dataclass
class Unit:
    """A selected kernel on its way."""

    table: Table
    record: KernelRecord
    key: str
    inputs: dict[str, str]
    entry: Entry | None
    problem: str = ""
    skipped: str = ""  # why this toolchain cannot compile it
    status: str = "missing"
    outcome: Outcome | None = None
    command: str = ""
    source_key: str = ""
    headers: dict[str, str] = field(default_factory=dict)  # that the source reaches: sha256 by name
    cutlass: bool = True  # whether it includes CUTLASS's headers

    @property
    def to_compile(self) -> bool:
        return self.entry is None and not self.problem and not self.skipped

    def part(self) -> Part | None:
        """The part of the library that the kernel becomes; None if it is not compiled."""
        if self.entry is None:
            return None
        return Part(self.entry, compilers.made_of(self.record), self.source_key, self.headers)

    def settle(self, outcome: Outcome, store: Store, job: Job) -> None:
        self.status = outcome.status
        self.outcome = outcome
        if outcome.status == "failed":
            self.command = shell(job.command)
            return
        self.entry = store.entry(self.key)
        if self.entry is None:
            self.problem = "its entry in the build cache is broken; build again"

    def report(self) -> UnitReport:
        report = UnitReport(self.record.name, self.table.module, self.key, self.status, command=self.command)
        report.source_key = self.source_key
        report.reason = self.skipped
        failed = self.outcome is not None and self.outcome.status == "failed"
        if failed and self.outcome is not None:
            report.errors, report.log = self.outcome.errors, self.outcome.log
            report.findings.append(Finding("compile", self.outcome.message))
            if self.outcome.refused:
                report.refusal = "\n".join((self.outcome.message, *self.outcome.errors))
        elif self.problem:
            report.status = "failed"
            report.findings.append(Finding("compile", self.problem))
        elif self.entry is not None:
            report.data = self.entry.report
            compiler = compilers.of(self.record)
            report.findings = compiler.judge(self.record, self.entry.report, self.cutlass)
            report.exceptions = compiler.exceptions(self.record, self.entry.report, self.cutlass)
            report.refusal = "\n".join(finding.message for finding in report.fatal(strict=False))
        return report


@dataclass
class Module:
    table: Table
    units: list[Unit] = field(default_factory=list)

    @classmethod
    def plan(cls, table: Table, select: Select, planner: Planner) -> Module:
        return cls(table, [planner.unit(table, record) for record in selected_records(table, select)])

    @property
    def anything(self) -> bool:
        """Whether a selected kernel of it can be compiled here."""
        return any(not unit.skipped for unit in self.units)


def selected_records(table: Table, select: Select) -> list[KernelRecord]:
    if select is None:
        return list(table.values())
    if callable(select):
        return [record for record in table.values() if select(record)]
    return [table[name] for name in select if name in table]


class Planner:
    """Knows, for one build, everything that decides an object besides its source and flags.

    Raises ToolchainError or CacheRefusedError if a path is unsafe on a command line (shell_text.py).
    Without `writes` nothing is written to the store, not even digests that save time.
    """

    def __init__(self, toolchain: HostToolchain, store: Store, include: Path, *, writes: bool = True) -> None:
        _check_paths(toolchain, store, include)
        self.toolchain = toolchain
        self.store = store
        self.include = include
        self._source_keys = SourceKeys(include, toolchain.headers_release)
        self._headers = self._source_keys.headers
        if writes:
            self._memory = store.memory
        else:
            store.check()
            self._memory = store.root / "digests"
        self._writes = writes
        # Of the toolchain, and of a kernel's key, by compiler and whether a unit includes CUTLASS's headers.
        self._parts: dict[tuple[str, bool], HostToolchain] = {}
        self._inputs_of: dict[tuple[str, bool], tuple[str, ...]] = {}

    def unit(self, table: Table, record: KernelRecord) -> Unit:
        """The unit of a row, with its entry if the store has it whole."""
        source = table.source(record)
        try:
            data = reading.contents(source)
        except (FileNotFoundError, UnreadableFileError) as error:
            reason = error.reason if isinstance(error, UnreadableFileError) else error.strerror
            problem = f"{source}: {reason}; `tilewright generate` writes it"
            return Unit(table, record, "", {}, None, problem)
        sha256 = hashlib.sha256(data).hexdigest()
        headers, compiler = self._headers.reached(data), compilers.of(record)
        cutlass = self._headers.cutlass(data)
        key = digest(
            "kernel",
            sha256,
            self._headers.digest(headers),
            *self._compiler_inputs(compiler, cutlass),
            *compiler.flags(record),
        )
        unit = Unit(table, record, key, self._inputs(source, sha256, headers), None, headers=headers)
        unit.source_key, unit.cutlass = self._source_keys.of(table, record), cutlass
        if sha256 != record.sha256:
            unit.problem = (
                f"{source} is not what {table.path.name} lists; `tilewright check` says how they differ"
            )
            return unit
        unit.problem = _unspeakable(source.resolve(), record) or _in_other_hands(table, record)
        if unit.problem:
            return unit
        unit.skipped = compiler.refusal(record, self._part(compiler, cutlass=True), cutlass)
        if unit.skipped:
            unit.status = "skipped"
            return unit
        unit.entry = self.store.entry(key)
        unit.status = "missing" if unit.entry is None else "cached"
        return unit

    def toolchain_of(self, table: Table) -> HostToolchain:
        """The part of the toolchain that a module is compiled and linked by."""
        return self._part(compilers.of_table(table), cutlass=False)

    def _part(self, compiler: Compiler, *, cutlass: bool) -> HostToolchain:
        which = (compiler.name, cutlass)
        if which not in self._parts:
            self._parts[which] = compiler.part(self.toolchain, cutlass=cutlass)
        return self._parts[which]

    def _compiler_inputs(self, compiler: Compiler, cutlass: bool) -> tuple[str, ...]:
        which = (compiler.name, cutlass)
        if which not in self._inputs_of:
            part = self._part(compiler, cutlass=cutlass)
            self._inputs_of[which] = compiler.inputs(part, self._memory, keep=self._writes)
        return self._inputs_of[which]

    def kernel_job(self, unit: Unit, slots: int, launcher: Sequence[str]) -> Job:
        source = unit.table.source(unit.record).resolve()
        compiler = compilers.of(unit.record)
        toolchain, flags = self._part(compiler, cutlass=unit.cutlass), compiler.flags(unit.record)
        return Job(
            name=unit.record.name,
            module=unit.table.module,
            kind="kernel",
            arch=unit.record.arch,
            key=unit.key,
            source=str(source),
            inputs=unit.inputs,
            roots=_roots(toolchain, compiler.header_trees(toolchain)),
            command=compiler.command(toolchain, self.include, source, flags, launcher),
            disassembler=compiler.disassembler(toolchain),
            store=str(self.store.root),
            slots=slots,
            quick=not unit.cutlass,
            compiler=compiler.name,
        )

    def table_job(self, table: Table, slots: int) -> Job | None:
        """The unit of the module's table.cc; None if the module has none."""
        source = (table.folder / "table.cc").resolve()
        if not source.is_file():
            return None
        data = reading.contents(source)
        sha256 = hashlib.sha256(data).hexdigest()
        headers = self._headers.reached(data)
        ffi = tvm_ffi_folder() / "include"
        compiler, toolchain = compilers.of_table(table), self.toolchain_of(table)
        key = digest(
            "table",
            sha256,
            self._headers.digest(headers),
            tree_digest(ffi, self._memory, keep=self._writes),
            toolchain.identity,
            *compiler.table_flags(),
        )
        return Job(
            name=f"{table.module}.table.cc",
            module=table.module,
            kind="table",
            arch="",
            key=key,
            source=str(source),
            inputs=self._inputs(source, sha256, headers),
            roots=_roots(toolchain, (ffi,)),
            command=commands.table_command(compiler, toolchain, self.include, ffi, source),
            disassembler="",
            store=str(self.store.root),
            slots=slots,
            compiler=compiler.name,
        )

    def table_headers(self, table: Table) -> dict[str, str]:
        """The headers that the module's table.cc reaches: sha256 by name."""
        return self._headers.reached(reading.contents(table.folder / "table.cc"))

    def _inputs(self, source: Path, sha256: str, headers: dict[str, str]) -> dict[str, str]:
        return {
            str(source.resolve()): sha256,
            **{str(self._headers.path(name)): digest for name, digest in headers.items()},
        }


def _roots(toolchain: HostToolchain, trees: Sequence[Path]) -> list[str]:
    """The folders that a unit may include from. The content of each is a part of the unit's key."""
    return [str(root) for root in (*trees, *toolchain.runtime_includes, *toolchain.system_includes)]


def _in_other_hands(table: Table, record: KernelRecord) -> str:
    """Why a module cannot hold a kernel beside its other kernels; "" if it can."""
    compiler = compilers.of_table(table).name
    if record.compiler == compiler:
        return ""
    return f"its compiler is {record.compiler}, its module's is {compiler}: give it a spec of its own"


def _check_paths(toolchain: HostToolchain, store: Store, include: Path) -> None:
    """Raises if a path that all units share is unsafe on a command line."""
    words = {
        "the folder of headers": include,
        **{f"the folder of headers of {folder.parent.name}": folder for folder in plugins.folders("include")},
        **toolchain.named_paths,
    }
    for what, word in (*words.items(), *(("a word of the host compiler", word) for word in toolchain.host)):
        if why := shell_text.fault(str(word)):
            raise ToolchainError(f"{what}, {str(word)!r}, {why}")
    for root in (store.root, store.root.resolve()):
        if why := shell_text.fault(str(root)):
            raise CacheRefusedError(
                f"the build cache's folder, {str(root)!r}, {why}", hint="Set TILEWRIGHT_CACHE to another."
            )


def _unspeakable(source: Path, record: KernelRecord) -> str:
    """Why a path or define of a row is unsafe on a command line; "" if none is."""
    for what, word in (
        ("source", str(source)),
        ("arch", record.arch),
        *(("define", d) for d in record.defines),
    ):
        if why := shell_text.fault(word):
            return f"its {what}, {word!r}, {why}"
    return ""
