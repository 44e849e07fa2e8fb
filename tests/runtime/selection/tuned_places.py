"""A project with tuned files, in which tests select."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from altered import altered

from tilewright.architectures.device import H200, DeviceProperties
from tilewright.base import paths
from tilewright.context import Context
from tilewright.declarations.table import KernelRecord
from tilewright.declarations.tactics import Tactic
from tilewright.families.gemm.family import FAMILY
from tilewright.families.gemm.problem import Problem
from tilewright.libraries.registry import Registry
from tilewright.selection.choice import Choice
from tilewright.selection.estimates import Estimate
from tilewright.selection.tuned_files import Entry
from tilewright.selection.tuned_header import Header
from tilewright.tools.tuning import tuned_writing

N, K = 4096, 4096
EVERY = ("big", "medium", "small", "split")


class Place:
    """A context of four kernels, of which `built` are, and its tuned file."""

    def __init__(self, folder: Path, registry: Registry) -> None:
        self.path = paths.tuned_file(folder, H200.name, "gemm")
        self.context = Context(registry)

    def tune(self, **tactics: str) -> None:
        """`m32="small"`: for m of 32."""
        registry = self.context.registry
        header = Header.of(H200, registry, "gemm", driver="580.1", cuda="13.0", cutlass="4.2.0")
        entries = [
            Entry(Problem(int(name[1:]), N, K), Tactic.parse(tactic), 1e-5)
            for name, tactic in tactics.items()
        ]
        tuned_writing.update(self.path, header, FAMILY, entries)
        self.context.forget_tuned()

    def choose(self, m: int, **fields: Any) -> Choice:
        return self.context.select(FAMILY, Problem(m, **({"n": N, "k": K} | fields)), H200)


def estimating(seconds: dict[str, float], **there: float) -> Any:
    """The family, with a model that says so many seconds of each kernel; `there`: of some for m of 64."""

    def estimator(record: KernelRecord, problem: Problem, device: DeviceProperties) -> Any:
        known = seconds | there if problem.m == 64 else seconds
        actual = Estimate(known[record.name], 1, "math", known[record.name], 0.0)
        return lambda tactic: actual

    return altered(FAMILY, estimator=estimator)
