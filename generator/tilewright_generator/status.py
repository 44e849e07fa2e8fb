"""The status of every kernel by the committed records: compiled, run on a GPU, and whether that still holds.

Compiled: benchmarks/results/compile/<module>.json. Run, and hammered (run thousands of times beside another
stream, and compared to the bit): benchmarks/results/gpu/*.json. A row counts as
current only if its source key is that of the kernel as it stands; a row of a run also if its machine code is
what the kernel is compiled to now, so that a header can be put in other words without a GPU at hand.
benchmarks/results/stale.json bounds the rows of other sources: a change of a header makes rows stale, and its
author raises the bound. A kernel without a row is "never" compiled or run, which is no fault.

The machine code of a kernel says nothing of the code on the host that launches it. So a row of a run also
has the key of that host code (compile/source_keys.py). A change of it makes no row stale, because all kernels
share much of it. The host code of a module is stale until one of its kernels has passed its tests with it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tilewright.base import reading
from tilewright.base.schema import Integer, Map, Object, Schema, String, fields
from tilewright.errors import UnreadableFileError
from tilewright_generator.errors import DriftError
from tilewright_generator.plurals import counted
from tilewright_generator.project import Project

if TYPE_CHECKING:
    from tilewright.declarations.table import Table

COMPILED = Path("benchmarks/results/compile")
RUN = Path("benchmarks/results/gpu")
MOST_STALE = Path("benchmarks/results/stale.json")
_PIN = re.compile(r'"nvidia-cutlass==(\d+\.\d+\.\d+)')
CURRENT, STALE, FAILED, NEVER = "current", "stale", "failed", "never"
RECORDED = ("compiled", "run", "hammered")
HOST = "host"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The results of one kernel, and whether they belong to its source."""

    name: str
    target: str
    compiled: str
    run: str
    hammered: str = NEVER
    numbers: Mapping[str, Any] = field(default_factory=dict)
    """The kernel's row of the compile record, if it has one."""
    spills: str = ""
    """Why it may spill registers, where its table allows it."""
    check: Mapping[str, Any] = field(default_factory=dict)
    """The kernel's row of the GPU records, with the GPU's name: a row of its source, else of another
    source; among these a failed one, else the newest."""
    hammer: Mapping[str, Any] = field(default_factory=dict)
    """The hammer's runs and how many had wrong bits, chosen alike."""
    host: str = NEVER
    """Whether a run that passed had today's host code. "never" if no run's host code is known."""


def cutlass_version(project: Project) -> str:
    """The CUTLASS release that the project is pinned to; empty if its pyproject.toml pins none."""
    path = project.root / "pyproject.toml"
    match = _PIN.search(reading.text(path)) if path.exists() else None
    return match[1] if match else ""


def tables(project: Project) -> list[Table]:
    from tilewright.declarations.table import read_tables  # noqa: PLC0415 (other commands need no runtime)

    return read_tables(project.out)


class Records:
    """The committed records of a project about its kernels."""

    def __init__(self, project: Project) -> None:
        from tilewright.compile.source_keys import HostKeys, SourceKeys  # noqa: PLC0415

        self._compiled = project.root / COMPILED
        self._runs = _runs(project)
        self._keys = SourceKeys(include(project), cutlass_version(project))
        self._host_keys = HostKeys(include(project))

    def verdicts(self, table: Table) -> list[Verdict]:
        """The verdict on each kernel of the table, by name. Raises DriftError if a source is missing."""
        rows = self._rows(table)
        verdicts = []
        for name in sorted(table):
            try:
                verdict = self._verdict(table, name, rows.get(name, {}))
                verdicts.append(replace(verdict, host=self._host(table, name)))
            except OSError as error:
                source = table.source(table[name])
                raise DriftError(f"{source}: {error.strerror}; `tilewright generate` writes it") from None
        return verdicts

    def words(self, table: Table) -> dict[str, tuple[str, str, str]]:
        """Whether kernels were compiled, run and hammered, of those alone that have a record: only their
        sources are read, and one that is missing makes its records stale."""
        rows = self._rows(table)
        words = {}
        recorded = (rows, self._runs.passed, self._runs.hammered)
        for name in (name for name in table if any(name in several for several in recorded)):
            try:
                verdict = self._verdict(table, name, rows.get(name, {}))
                words[name] = verdict.compiled, verdict.run, verdict.hammered
            except (OSError, UnreadableFileError):
                compiled, run, hammered = (STALE if name in several else NEVER for several in recorded)
                words[name] = compiled, run, hammered
        return words

    def _rows(self, table: Table) -> dict[str, Any]:
        from tilewright_generator import records  # noqa: PLC0415

        compiled = records.read(self._compiled / f"{table.module}.json")
        return {row["name"]: row for row in compiled["kernels"]}

    def _verdict(self, table: Table, name: str, row: Mapping[str, Any]) -> Verdict:
        record = table[name]
        key = self._keys.of(table, record)
        compiled = _word(row, row.get("source_key") == key)
        code = row.get("machine_code") if compiled == CURRENT else None

        def stands(run: Mapping[str, Any]) -> bool:
            return run["source_key"] == key or bool(code and run.get("machine_code") == code)

        def judged(runs: Sequence[Mapping[str, Any]]) -> tuple[str, Mapping[str, Any]]:
            run = _telling(runs, stands)
            return (_word(run, bool(run) and stands(run)) if run.get("passed", True) else FAILED), run

        run, check = judged(self._runs.passed.get(name, []))
        hammered, hammer = judged(self._runs.hammered.get(name, []))
        return Verdict(name, record.arch, compiled, run, hammered, row, record.spills, check, hammer)

    def _host(self, table: Table, name: str) -> str:
        runs = self._runs.passed.get(name, [])
        keys = {run["host_key"] for run in runs if run["passed"] and "host_key" in run}
        if not keys:
            return NEVER
        return CURRENT if self._host_keys.of(table, table[name]) in keys else STALE


Modules = Sequence[tuple[str, Sequence[Verdict]]]  # by their names, the verdicts on their kernels


def verdicts(project: Project) -> Modules:
    """The verdicts of all modules of a project. Raises DriftError if a source is missing."""
    records = Records(project)
    return [(table.module, records.verdicts(table)) for table in tables(project)]


def stale_hosts(modules: Modules) -> list[str]:
    """The modules that ran on a GPU, none of whose kernels has passed its tests with today's host code."""
    return [
        module
        for module, verdicts in modules
        if any(verdict.check for verdict in verdicts) and all(verdict.host != CURRENT for verdict in verdicts)
    ]


def faults(project: Project, modules: Modules, *, release: bool = False) -> list[str]:
    """The faults of the records: kernels whose run failed, and more stale rows or host code than
    benchmarks/results/stale.json allows. A release allows none."""
    verdicts = [verdict for _, several in modules for verdict in several]
    allowed = _allowed(project, release)
    allowed_failures = allowed.get("failed", {})
    failed = [verdict.name for verdict in verdicts if verdict.run == FAILED]
    messages = [f"{name}: its last run on a GPU failed" for name in failed if name not in allowed_failures]
    messages += [
        f"{name}: stale.json lists it as failed, and it is not"
        for name in allowed_failures
        if name not in failed
    ]
    messages += [
        "{name}: {wrong} of {runs} runs of the hammer had wrong bits".format_map(verdict.hammer)
        for verdict in verdicts
        if verdict.hammered == FAILED
    ]
    for what in RECORDED:
        stale = sum(getattr(verdict, what) == STALE for verdict in verdicts)
        if what in allowed and stale > allowed[what]:
            messages.append(f"{stale} rows of what was {what} are stale, and {allowed[what]} may be")
    hosts = stale_hosts(modules)
    if HOST in allowed and len(hosts) > allowed[HOST]:
        messages.append(
            f"the host code of {counted(len(hosts), 'module')} is stale, and {allowed[HOST]} may be: "
            f"{', '.join(hosts)}"
        )
    return messages


def _allowed(project: Project, release: bool) -> dict[str, Any]:
    """How many rows may be stale, by what they say of kernels; in how many modules the host code may be; and
    the kernels that failed and wait for a GPU to run again on, each with what was wrong and mended. Nothing
    is bounded where the file is missing.

    Raises UnreadableFileError where the file is not a record.
    """
    if release:
        return dict.fromkeys((*RECORDED, HOST), 0)
    counts = fields(("compiled", "run"), Integer())
    failed: dict[str, Schema] = {"failed": Map(String()), **fields(("hammered", HOST), Integer())}
    try:
        allowed: dict[str, Any] = reading.load_json(project.root / MOST_STALE, Object(counts, failed))
    except FileNotFoundError:
        return {}
    return allowed


def _word(row: Mapping[str, Any], stands: bool) -> str:
    if not row:
        return NEVER
    return CURRENT if stands else STALE


def _telling(
    runs: Sequence[Mapping[str, Any]], stands: Callable[[Mapping[str, Any]], bool]
) -> Mapping[str, Any]:
    """The row that counts, of one kernel's: a failure is not hidden by what another GPU's record says."""
    current = [run for run in runs if stands(run)]
    among = current or runs
    return next((run for run in among if not run["passed"]), among[0] if among else {})


Rows = dict[str, list[dict[str, Any]]]


class _Runs(NamedTuple):
    """Rows of the GPU records by kernel, newest first."""

    passed: Rows
    hammered: Rows


def _runs(project: Project) -> _Runs:
    from tilewright_generator import records  # noqa: PLC0415

    passed: Rows = {}
    hammered: Rows = {}
    for path in sorted((project.root / RUN).glob("*.json")):
        record = records.read(path)
        for row in record["kernels"]:
            name, hammer = row["name"], row.get("hammered")
            if "passed" in row:
                passed.setdefault(name, []).append({"date": record["date"], **row, "gpu": record["gpu"]})
            if hammer:
                own = {"name": name, **hammer, "passed": not hammer["wrong"], "gpu": record["gpu"]}
                hammered.setdefault(name, []).append(own)
    for rows in (*passed.values(), *hammered.values()):
        rows.sort(key=lambda row: str(row["date"]), reverse=True)
    return _Runs(passed, hammered)


def include(project: Project) -> Path:
    """The folder of tilewright's headers: the project's own, else those that come with tilewright."""
    from tilewright.base import paths  # noqa: PLC0415

    own = project.root / "runtime" / "include"
    return own if own.is_dir() else paths.include_dir()
