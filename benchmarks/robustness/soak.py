"""Threads on streams run stream-K kernels, and others, at once; every result is compared to the bit.

    python -m benchmarks.robustness.soak [--seconds 60] [--streams 2] [--threads 4] [--out FILE]

Thread i works on stream i modulo the number of streams, so that two threads share each stream. A job is a
call of an op, of a plan or of torch.ops, on operands whose result was computed before, while nothing else
ran. Reductions are deterministic, so that the bits must be equal. Results are compared on the GPU, in the
stream of the call. The program exits with 1 if a result differs or a call fails. If it hangs, it dumps
every thread's stack and exits with 3, at most 25 s after the time is up. Kernels that are not built are
left out: `tilewright build` first.
"""

from __future__ import annotations

import argparse
import collections
import faulthandler
import itertools
import json
import os
import random
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from benchmarks.lib import machine

import tilewright
import tilewright.torch_ops
from tilewright import context, reference
from tilewright.errors import NoKernelError, NotBuiltError

STALLED = 20.0  # seconds without a finished round, after which it is a hang
AHEAD = 16  # calls of a thread that may be queued
SHAPES = [(64, 2048, 4096), (333, 1000, 2048), (2048, 2000, 4096), (16, 5120, 8192)]
BF16 = torch.bfloat16


@dataclass(frozen=True)
class Job:
    name: str
    run: Callable[[torch.Tensor], object]  # writes its argument
    wanted: torch.Tensor


def stream_k_kernels(a: str) -> list[str]:
    """The built stream-K kernels of a type."""
    now = context.current()
    return [
        record.name
        for record in now.registry.route("gemm", now.device(0))
        if (record.config["a"], record.config["layout"]) == (a, "tn")
        and record.config["scheduler"] == "stream_k"
        and record.config["activation"] == "none"
        and not record.config["fast_accum"]
        and now.registry.is_built(record)
    ]


def gemm_jobs(dtype: torch.dtype, name: str, shape: tuple[int, int, int]) -> list[Job]:
    m, n, k = shape
    if dtype == torch.float8_e4m3fn:
        n = n // 16 * 16
    a = torch.randn(m, k, device="cuda").to(dtype)
    b = torch.randn(n, k, device="cuda").to(dtype).t()
    tactics: list[str | None] = [None]
    for kernel in stream_k_kernels(name)[:3]:
        tactics += [f"{kernel}@decomposition=stream_k", f"{kernel}@decomposition=split_k,splits=4"]
    jobs = []
    for tactic in tactics:
        what = f"{name} {m}x{n}x{k} {tactic or 'selected'}"
        try:
            expected = tilewright.gemm(a, b, tactic=tactic)
            plan = tilewright.plan(tilewright.gemm, a, b, tactic=tactic)
        except (NotBuiltError, NoKernelError) as error:
            print(f"left out: {what}: {error.message}", file=sys.stderr)
            continue

        def call(out: torch.Tensor, tactic: str | None = tactic) -> None:
            tilewright.gemm(a, b, out=out, tactic=tactic)

        def planned(out: torch.Tensor, plan: Any = plan) -> None:
            plan(a, b, out)

        def dispatched(out: torch.Tensor, tactic: str | None = tactic) -> None:
            torch.ops.tilewright.gemm_out(a, b, out, tactic=tactic)

        jobs += [Job(f"{what} {how.__name__}", how, expected) for how in (call, planned, dispatched)]
    return jobs


def blockscaled_jobs(shape: tuple[int, int, int]) -> list[Job]:
    m, n, k = shape
    a, a_scales = reference.quantize(torch.randn(m, k, device="cuda"), "nvfp4")
    b, b_scales = reference.quantize(torch.randn(n, k, device="cuda"), "nvfp4")
    operands = (a, b.mT, a_scales, b_scales)
    try:
        expected = tilewright.mm_nvfp4(*operands)
    except (NotBuiltError, NoKernelError) as error:
        print(f"left out: nvfp4: {error.message}", file=sys.stderr)
        return []
    run = lambda out: tilewright.mm_nvfp4(*operands, out=out)  # noqa: E731
    return [Job(f"nvfp4 {m}x{n}x{k} call", run, expected)]


class Worker(threading.Thread):
    def __init__(self, number: int, jobs: list[Job], stream: torch.cuda.Stream, until: float) -> None:
        super().__init__(name=f"worker {number}", daemon=True)
        self.jobs, self.stream, self.until = jobs, stream, until
        self.dice = random.Random(number)
        self.calls: collections.Counter[str] = collections.Counter()
        self.differ = torch.zeros(len(jobs), dtype=torch.int64, device="cuda")
        self.finished = time.monotonic()  # the last round
        self.error: str | None = None

    def run(self) -> None:
        try:
            with torch.cuda.stream(self.stream):
                while time.monotonic() < self.until:
                    self.round()
                self.stream.synchronize()
        except Exception as error:
            self.error = repr(error)

    def round(self) -> None:
        for index in self.dice.choices(range(len(self.jobs)), k=AHEAD):
            job = self.jobs[index]
            out = torch.full_like(job.wanted, float("nan"))
            job.run(out)
            self.differ[index] += (out.view(torch.int16) != job.wanted.view(torch.int16)).any()
            self.calls[job.name] += 1
        done = torch.cuda.Event()
        done.record()
        done.synchronize()
        self.finished = time.monotonic()


def watch(workers: list[Worker], give_up: Callable[[str], None]) -> None:
    """Ends the process where a worker stands still: a hung kernel cannot be ended otherwise."""
    while any(worker.is_alive() for worker in workers):
        time.sleep(0.5)
        for worker in workers:
            if worker.is_alive() and time.monotonic() - worker.finished > STALLED:
                give_up(f"{worker.name} has finished nothing for {STALLED:.0f} s")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60.0, help="how long threads call ops")
    parser.add_argument("--streams", type=int, default=2, help="CUDA streams that threads share")
    parser.add_argument("--threads", type=int, default=4, help="threads that call ops")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write JSON there")
    arguments = parser.parse_args()
    machine.require_gpu()
    # Exits from a thread of C, even if another thread holds the interpreter's lock.
    faulthandler.dump_traceback_later(85, exit=True)
    os.environ["TILEWRIGHT_JIT"] = "0"
    torch.manual_seed(0)
    jobs = [
        job
        for shape in SHAPES
        for job in (
            *gemm_jobs(BF16, "bf16", shape),
            *gemm_jobs(torch.float8_e4m3fn, "e4m3", shape),
            *gemm_jobs(torch.float32, "tf32", shape),  # with CUTLASS's stream-K
            *blockscaled_jobs(shape),
        )
    ]
    torch.cuda.synchronize()
    if not jobs:
        print("no kernel is built", file=sys.stderr)
        return 2
    faulthandler.cancel_dump_traceback_later()
    faulthandler.dump_traceback_later(arguments.seconds + 25, exit=True)

    streams = [torch.cuda.Stream() for _ in range(arguments.streams)]
    start = time.monotonic()
    until = start + arguments.seconds
    turns = zip(range(arguments.threads), itertools.cycle(streams), strict=False)
    workers = [Worker(number, jobs, stream, until) for number, stream in turns]
    torch.cuda.synchronize()  # the counters are zero before another stream counts

    def report(hang: str | None) -> dict[str, Any]:
        calls: collections.Counter[str] = collections.Counter()
        for worker in workers:
            calls.update(dict(worker.calls))
        result: dict[str, Any] = {
            "gpu": torch.cuda.get_device_name(),
            "torch": torch.__version__,
            "seconds": round(time.monotonic() - start, 1),
            "streams": arguments.streams,
            "threads": arguments.threads,
            "calls": sum(calls.values()),
            "hang": hang,
            "errors": [worker.error for worker in workers if worker.error is not None],
            "jobs": len(calls),
            "calls_of_a_job": [min(calls.values(), default=0), max(calls.values(), default=0)],
        }
        if hang is None:
            counts = sum(worker.differ.cpu() for worker in workers)
            result["mismatches"] = int(counts.sum())
            result["differ"] = {
                job.name: int(count) for job, count in zip(jobs, counts.tolist(), strict=True) if count
            }
        if arguments.out is not None:
            arguments.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
        return result

    def give_up(why: str) -> None:
        faulthandler.dump_traceback()
        print(f"HANG: {why}; {report(why)['calls']} calls", file=sys.stderr, flush=True)
        os._exit(3)

    for worker in workers:
        worker.start()
    watch(workers, give_up)
    faulthandler.cancel_dump_traceback_later()
    result = report(None)
    print(
        f"{result['calls']} calls of {len(jobs)} jobs in {result['seconds']} s, "
        f"{arguments.threads} threads on {arguments.streams} streams: "
        f"{result['mismatches']} results differ, {len(result['errors'])} errors"
    )
    for line in (*result["differ"], *result["errors"]):
        print(f"  {line}")
    return 1 if result["mismatches"] or result["errors"] else 0


if __name__ == "__main__":
    sys.exit(main())
