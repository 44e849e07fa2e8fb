"""Tuning of kernels that run on the host, in other processes as on GPUs: real calls, real times, real ends.

As a program: `host_tuning.py SITE.json FILE` tunes `PROBLEMS` into a tuned file, and says what is written.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import hanging
from host_modules import Built

from tilewright.architectures.device import H200, DeviceProperties
from tilewright.context import Context
from tilewright.declarations.tactics import Tactic
from tilewright.errors import GpuLostError
from tilewright.families.gemm.family import FAMILY
from tilewright.families.gemm.problem import Problem
from tilewright.libraries.registry import Registry
from tilewright.selection.tuned_header import Header
from tilewright.tools.sharding.engine import Local, Say
from tilewright.tools.tuning import tuning
from tilewright.tools.tuning.stages import Clock
from tilewright.tools.tuning.workers import Site

PROBLEMS = [Problem(m, n, 64) for n in (48, 64, 80) for m in (1, 8, 16, 32)]


class HostClock:
    """Times calls on the host, and ends as it is told where it meets a tactic."""

    def __init__(self, problem: Problem, ends: dict[str, str], seconds: float = 0.0) -> None:
        import torch  # noqa: PLC0415

        from tilewright.families.gemm.measuring import operands  # noqa: PLC0415

        torch.manual_seed(0)
        a = torch.randn(problem.m, problem.k).bfloat16()
        b = torch.randn(problem.n, problem.k).bfloat16().T
        self._operands = operands(
            problem, a=a, b=b, out=torch.empty(problem.m, problem.n, dtype=torch.bfloat16)
        )
        self._ends = ends
        self._seconds = seconds

    def quick(self, tactic: Tactic, limit: float) -> float:
        self._end(self._ends.get(str(tactic)))
        time.sleep(self._seconds)
        return self.again(tactic)

    def again(self, tactic: Tactic) -> float:
        started = time.perf_counter()
        self._operands.call(tactic)
        return time.perf_counter() - started

    def peer(self) -> float | None:
        return None

    def verify(self, tactic: Tactic) -> None:
        self._operands.poison()
        self._operands.call(tactic)
        self._operands.check()

    def _end(self, how: str | None) -> None:
        if how == "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        elif how == "lost":
            raise GpuLostError("an illegal memory access")
        elif how == "hangs":
            hanging.hang()


@dataclass(frozen=True)
class HostSite:
    """Opens a context of host kernels. `ends`: what becomes of a process at a tactic."""

    generated: Path
    library: Path
    ends: tuple[tuple[str, str], ...] = ()
    seconds: float = 0.0  # that a quick time takes beside
    absent: tuple[str, ...] = ("host_absent",)  # kernels that are not built

    def __call__(self, place: int) -> Site:
        os.environ |= {"TILEWRIGHT_JIT": "0", "TILEWRIGHT_TUNED": ""}
        registry = Registry(self.generated, libraries=lambda module: [Built(self.library, self.absent)])
        return Site(Context(registry, described=H200), FAMILY, H200, self.clock)

    def clock(self, problem: Any) -> Clock:
        return HostClock(problem, dict(self.ends), self.seconds)


def describe(shard: None, place: int, say: Say) -> Iterator[tuple[DeviceProperties, str]]:
    """What a task says that is asked for its GPU."""
    yield H200, "580.1"


def describe_nothing(shard: None, place: int, say: Say) -> Iterator[tuple[DeviceProperties, str]]:
    yield from ()


def answer(shard: int, place: int, say: Say) -> Iterator[int]:
    say("again")
    yield shard


def header(registry: Registry) -> Header:
    return Header.of(H200, registry, "gemm", driver="580.1", cuda="13.0", cutlass="4.2.0")


def main(described: Path, file: Path) -> None:
    fields = json.loads(described.read_text(encoding="utf-8"))
    site = HostSite(Path(fields["generated"]), Path(fields["library"]), seconds=fields["seconds"])
    registry = site(0).context.registry
    book = tuning.Book(file, header(registry), FAMILY)
    known = tuning.Known(file, FAMILY, registry).standing(PROBLEMS)
    engine = Local([0])
    try:
        left = [problem for problem in PROBLEMS if problem not in known]
        for number, result in enumerate(tuning.tune_problems(left, engine, site, book=book), 1):
            us = (result.seconds or 0) * 1e6
            print(
                f"[{number}/{len(left)}] {result.problem}: {us:.2f} us {result.tactic}",
                file=sys.stderr,
                flush=True,
            )
    finally:
        engine.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
