"""What a build found out: per kernel its resources, its instructions, what is wrong with it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from tilewright.base.spelling import table
from tilewright.compile.library import LibraryRecord
from tilewright.compile.sass_hazards import EARLY_ACCESS
from tilewright.compile.waits import exception
from tilewright.declarations.table import KernelRecord
from tilewright.errors import BuildError, UncompilableError

FORMAT = 1
MARK = re.compile(rb'\A\{\n "format": \d+,\n "ok": ')  # how a report begins
_FAILURES_SHOWN = 5

# What a finding fails: every build, or a strict one only.
WRONG_PATH = "wrong_path"
NO_WAIT = "no_wait"
KNOWN_SPILLS = "known_spills"
_ALWAYS_FATAL = frozenset({WRONG_PATH, NO_WAIT, "compile"})
_WAIT = "ACQBULK"  # griddepcontrol.wait, in SASS


@dataclass(frozen=True)
class Finding:
    """What is wrong: `kind` is compile, wrong_path, no_wait, early_release, early_access, serialized_mma,
    spills, known_spills, stack or facts."""

    kind: str
    message: str

    def fatal(self, strict: bool) -> bool:
        return self.kind in _ALWAYS_FATAL or (strict and self.kind != KNOWN_SPILLS)


@dataclass
class UnitReport:
    """One kernel of a build.

    `status` is "cached", "built", "shared" (another process built it meanwhile), "failed", "skipped" (this
    toolchain cannot compile it, for `reason`), or "missing" in a dry run.
    """

    name: str
    module: str
    key: str
    status: str
    findings: list[Finding] = field(default_factory=list)
    exceptions: list[dict[str, str]] = field(default_factory=list)  # what would be findings, with the reason
    data: Mapping[str, Any] = field(default_factory=dict)  # the object's report.json
    errors: list[str] = field(default_factory=list)
    log: str = ""
    command: str = ""
    source_key: str = ""  # see records.py
    reason: str = ""
    refusal: str = ""  # why the same toolchain will not make a sound kernel of the same source

    def fatal(self, strict: bool) -> list[Finding]:
        return [finding for finding in self.findings if finding.fatal(strict)]


@dataclass
class BuildReport:
    """The whole build. Sizes are bytes, times seconds."""

    toolchain: Mapping[str, str]
    units: list[UnitReport]
    libraries: list[LibraryRecord]
    problems: list[str]  # what did not link
    seconds: float
    jobs: int
    strict: bool = False

    @property
    def failures(self) -> list[UnitReport]:
        return [unit for unit in self.units if unit.fatal(self.strict)]

    @property
    def ok(self) -> bool:
        return not self.failures and not self.problems

    def count(self, status: str) -> int:
        return sum(unit.status == status for unit in self.units)

    def skipped(self) -> dict[str, list[str]]:
        """The names of the kernels that were skipped, by the reason."""
        names: dict[str, list[str]] = {}
        for unit in self.units:
            if unit.status == "skipped":
                names.setdefault(unit.reason, []).append(unit.name)
        return names

    def raise_for_failures(self) -> None:
        """Raises BuildError that shows the first failures; UncompilableError where that is all they are."""
        if self.ok:
            return
        refused = not self.problems and all(unit.refusal for unit in self.failures)
        raise (UncompilableError if refused else BuildError)(self.explain_failures())

    def explain_failures(self) -> str:
        """The first failures with the compiler's errors, where the log is, and the command to repeat."""
        parts = []
        for unit in self.failures[:_FAILURES_SHOWN]:
            lines = [f"{unit.name}: {finding.message}" for finding in unit.fatal(self.strict)]
            lines += ["  " + line for error in unit.errors for line in error.splitlines()]
            if unit.log:
                lines.append(f"  log: {unit.log}")
            if unit.command:
                lines.append(f"  reproduce: {unit.command}")
            parts.append("\n".join(lines))
        if (more := len(self.failures) - _FAILURES_SHOWN) > 0:
            parts.append(
                f"and {more} more: {', '.join(unit.name for unit in self.failures[_FAILURES_SHOWN:][:20])}"
            )
        return "\n".join(parts + self.problems)

    def to_json(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "ok": self.ok,
            "strict": self.strict,
            "toolchain": dict(self.toolchain),
            "jobs": self.jobs,
            "seconds": round(self.seconds, 2),
            "kernels": [_kernel_json(unit) for unit in self.units],
            "skipped": [
                {"reason": reason, "count": len(names), "kernels": names}
                for reason, names in self.skipped().items()
            ],
            "libraries": [
                {"module": library.module, "path": str(library.path), "kernels": len(library.kernels)}
                for library in self.libraries
            ],
            "problems": self.problems,
        }

    def text(self) -> str:
        """What `tilewright build --report` writes."""
        return json.dumps(self.to_json(), indent=1) + "\n"

    def table(self) -> str:
        """One line a kernel, for people."""
        rows = [
            (
                unit.name,
                unit.status,
                _cell(unit, "registers"),
                _cell(unit, "smem_bytes"),
                str(unit.data["spill_store_bytes"] + unit.data["spill_load_bytes"]) if unit.data else "",
                _cell(unit, "code_bytes"),
                f"{unit.data['seconds']:.1f}" if unit.data else "",
                f"{unit.data['peak_memory_bytes'] / 1e9:.2f}" if unit.data else "",
                _tensor(unit.data),
                " ".join(sorted({finding.kind for finding in unit.findings})),
            )
            for unit in self.units
        ]
        head = ("kernel", "status", "regs", "smem", "spill", "code", "sec", "GB", "tensor", "findings")
        return "\n".join(table([head, *rows], indent=""))


def judge(record: KernelRecord, report: Mapping[str, Any], cutlass: bool = False) -> list[Finding]:
    """What is wrong with a compiled kernel, given the row that asks for it. `cutlass`: it includes CUTLASS's
    headers."""
    findings = []
    opcodes = {**report["tensor_instructions"], **report.get("data_instructions", {})}
    for pattern in record.instructions:
        if not any(re.match(pattern, opcode) for opcode in opcodes):
            holds = ", ".join(opcodes) or "no tensor-core instruction"
            findings.append(Finding(WRONG_PATH, f"wrong path: its SASS has no {pattern}; it holds {holds}"))
    if record.config.get("pdl") and _WAIT not in report.get("grid_dependency", {}):
        findings.append(
            Finding(NO_WAIT, f"its launch may begin early (pdl), and its SASS has no {_WAIT} that waits")
        )
    for hazard in _hazards(record, report):
        if not exception(hazard, record.arch, cutlass):
            findings.append(Finding(hazard["kind"], f"in {hazard['function']}, {hazard['message']}"))
    for warning in report["warnings"]:
        # C7510 for an opaque call, C7520 for a divergent path, others: ptxas words them alike.
        if warning["code"] == "C7510" or "wgmma.mma_async instructions are serialized" in warning["text"]:
            findings.append(Finding("serialized_mma", f"ptxas {warning['code']}: {warning['text']}"))
    if spilled := report["spill_store_bytes"] + report["spill_load_bytes"]:
        known = f", as its family knows: {record.spills}" if record.spills else ""
        kind = KNOWN_SPILLS if record.spills else "spills"
        findings.append(Finding(kind, f"spills {spilled} bytes of registers{known}"))
    elif report["stack_bytes"]:
        findings.append(Finding("stack", f"has a stack frame of {report['stack_bytes']} bytes"))
    return findings + judge_facts(record, report)


def judge_facts(record: KernelRecord, report: Mapping[str, Any]) -> list[Finding]:
    """Where a kernel's row and its object contradict each other."""
    return [
        Finding("facts", f"the table says {fact} is {record.facts[fact]}, the object says {report[fact]}")
        for fact in ("smem_bytes", "threads")
        if fact in record.facts and record.facts[fact] != report[fact]
    ]


def exceptions(record: KernelRecord, report: Mapping[str, Any], cutlass: bool) -> list[dict[str, str]]:
    """What would be findings of a compiled kernel, and why they are none."""
    return [
        {
            "kind": hazard["kind"],
            "opcode": hazard["opcode"],
            "message": f"in {hazard['function']}, {hazard['message']}",
            "reason": reason,
        }
        for hazard in _hazards(record, report)
        if (reason := exception(hazard, record.arch, cutlass))
    ]


def _hazards(record: KernelRecord, report: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """A kernel's hazards. Without programmatic launch no kernel starts before the previous one has ended."""
    early = bool(record.config.get("pdl"))
    return [hazard for hazard in report.get("hazards", ()) if early or hazard["kind"] != EARLY_ACCESS]


def _kernel_json(unit: UnitReport) -> dict[str, Any]:
    kept = {
        name: value
        for name, value in unit.data.items()
        if name not in ("format", "command", "kind", "functions", "hazards")
    }
    return {
        **kept,
        "name": unit.name,
        "module": unit.module,
        "key": unit.key,
        "source_key": unit.source_key,
        "status": unit.status,
        "findings": [asdict(finding) for finding in unit.findings],
        **({"exceptions": unit.exceptions} if unit.exceptions else {}),
        **({"reason": unit.reason} if unit.reason else {}),
        **(
            {"errors": unit.errors, "log": unit.log, "command": unit.command}
            if unit.errors or unit.log
            else {}
        ),
    }


def tensor_families(instructions: Mapping[str, int]) -> dict[str, int]:
    """Tensor-core instructions by what of the opcode says which path a kernel takes.

    Of a block-scaled instruction (OMMA.SF..., QMMA.SF...) and of tcgen05 (UTCOMMA.2CTA.4X) all of it: the
    suffixes are the scales, and whether two CTAs compute together. Of others (HGMMA.64x256x16.F32.BF16) the
    first part: the rest is shape and types.
    """
    counts: dict[str, int] = {}
    for opcode, count in instructions.items():
        name, *suffixes = opcode.split(".")
        family = opcode if name.startswith("UTC") or "SF" in suffixes else name
        counts[family] = counts.get(family, 0) + count
    return counts


def _tensor(data: Mapping[str, Any]) -> str:
    families = tensor_families(data.get("tensor_instructions", {}))
    return " ".join(f"{name}x{count}" for name, count in families.items())


def _cell(unit: UnitReport, name: str) -> str:
    return str(unit.data[name]) if unit.data else ""
