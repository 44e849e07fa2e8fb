"""What is wrong with a kernel that nvcc has compiled, given the row that asks for it and its report."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tilewright.compile.findings import KNOWN_SPILLS, NO_WAIT, WRONG_PATH, Finding, judge_facts
from tilewright.compile.nvcc.sass_hazards import EARLY_ACCESS
from tilewright.compile.nvcc.waits import exception
from tilewright.declarations.table import KernelRecord

_WAIT = "ACQBULK"  # griddepcontrol.wait, in SASS


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
        if not exception(hazard, record.arch, cutlass, record.releases, record.early_loads):
            findings.append(Finding(hazard["kind"], f"in {hazard['function']}, {hazard['message']}"))
    for warning in report["warnings"]:
        # C7510 for an opaque call, C7520 for a divergent path, others: ptxas words them alike.
        if warning["code"] == "C7510" or "wgmma.mma_async instructions are serialized" in warning["text"]:
            findings.append(Finding("serialized_mma", f"ptxas {warning['code']}: {warning['text']}"))
    if spilled := report["spill_store_bytes"] + report["spill_load_bytes"]:
        expected = f", as its family knows: {record.spills}" if record.spills else ""
        kind = KNOWN_SPILLS if record.spills else "spills"
        findings.append(Finding(kind, f"spills {spilled} bytes of registers{expected}"))
    elif report["stack_bytes"]:
        findings.append(Finding("stack", f"has a stack frame of {report['stack_bytes']} bytes"))
    return findings + judge_facts(record, report)


def exceptions(record: KernelRecord, report: Mapping[str, Any], cutlass: bool) -> list[dict[str, str]]:
    """Hazards of a compiled kernel that are no findings, each with the reason."""
    return [
        {
            "kind": hazard["kind"],
            "opcode": hazard["opcode"],
            "message": f"in {hazard['function']}, {hazard['message']}",
            "reason": reason,
        }
        for hazard in _hazards(record, report)
        if (reason := exception(hazard, record.arch, cutlass, record.releases, record.early_loads))
    ]


def _hazards(record: KernelRecord, report: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """A kernel's hazards. Without programmatic launch no kernel starts before the previous one has ended."""
    early = bool(record.config.get("pdl"))
    return [hazard for hazard in report.get("hazards", ()) if early or hazard["kind"] != EARLY_ACCESS]
