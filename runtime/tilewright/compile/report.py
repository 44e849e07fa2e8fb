"""The report of a build: the resources, instructions and findings of each kernel."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from tilewright.base.tables import table
from tilewright.compile.findings import Finding
from tilewright.compile.library import LibraryRecord
from tilewright.errors import BuildError, UncompilableError

FORMAT = 1
MARK = re.compile(rb'\A\{\n "format": \d+,\n "ok": ')  # how a report begins
_FAILURES_SHOWN = 5


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
    source_key: str = ""  # see source_keys.py
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
        """Raises BuildError with the first failures, or UncompilableError if the compilers refused every
        kernel that failed."""
        if self.ok:
            return
        refused = not self.problems and all(unit.refusal for unit in self.failures)
        raise (UncompilableError if refused else BuildError)(self.explain_failures())

    def explain_failures(self) -> str:
        """The first failures, each with the compiler's errors, the path of the log, and the command."""
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
        """The text of the file that `tilewright build --report` writes."""
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
