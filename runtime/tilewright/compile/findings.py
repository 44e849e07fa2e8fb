"""What is wrong with a compiled kernel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tilewright.declarations.table import KernelRecord

# What a finding fails: every build, or a strict one only.
WRONG_PATH = "wrong_path"
NO_WAIT = "no_wait"
KNOWN_SPILLS = "known_spills"
_ALWAYS_FATAL = frozenset({WRONG_PATH, NO_WAIT, "compile"})


@dataclass(frozen=True)
class Finding:
    """What is wrong: `kind` is compile, wrong_path, no_wait, early_release, early_access, serialized_mma,
    spills, known_spills, stack or facts."""

    kind: str
    message: str

    def fatal(self, strict: bool) -> bool:
        return self.kind in _ALWAYS_FATAL or (strict and self.kind != KNOWN_SPILLS)


def judge_facts(record: KernelRecord, report: Mapping[str, Any]) -> list[Finding]:
    """Where a kernel's row and its object contradict each other."""
    return [
        Finding("facts", f"the table says {fact} is {record.facts[fact]}, the object says {report[fact]}")
        for fact in ("smem_bytes", "threads")
        if fact in record.facts and record.facts[fact] != report[fact]
    ]
