"""Entries of tuned files, and what a file for an H200 says, for the tests of both."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tilewright.architectures.device import H200
from tilewright.declarations.tactics import Tactic
from tilewright.families.gemm.family import FAMILY
from tilewright.families.gemm.problem import Problem
from tilewright.libraries.registry import Registry
from tilewright.selection.tuned import Tuned
from tilewright.selection.tuned_files import Entry

DRIVER = "580.159.04"


def entry(
    m: int = 32,
    tactic: str = "small",
    seconds: float = 1e-5,
    seen: frozenset[str] = frozenset(),
    **fields: Any,
) -> Entry:
    return Entry(Problem(m, 4096, 4096, **fields), Tactic.parse(tactic), seconds, seen)


def tuned(registry: Registry) -> Tuned:
    return Tuned(FAMILY, registry, H200)


def altered(path: Path, **fields: Any) -> bytes:
    data = json.loads(path.read_text())
    path.write_text(json.dumps(data | fields))
    return path.read_bytes()
