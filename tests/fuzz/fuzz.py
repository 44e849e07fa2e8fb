"""Feeds `tilewright` spoilt files and command lines, and looks at how it ends.

    python tests/fuzz/fuzz.py [--seconds 1800] [--seed 1] [--processes 2] [--write]
    python tests/fuzz/fuzz.py --seed 1 --case 4711      # one of its inputs again, with all that it says

Each input is a small project of which a spec, a template, a manifest, a generated file, a table, a tuned
file, a record, a report, a library.json or an entry of the cache is spoilt; or in which links lead to files
outside or of /proc; or with a spec or a template of the corpus (`fuzz_corpus.py`); or with a command line of
shapes or words that nobody can have meant.

A command that then answers with an exit code of 3, a traceback, a signal, or not at all, that takes more than
20 s of processor time or 1 GB of memory, or that writes outside of the project, is a failure; 0, 1 and 2 are
answers. An input follows from the seed and its number alone. Nothing is compiled and no GPU is asked for.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from typing import NamedTuple, NoReturn

import fuzz_cases as cases
import fuzz_project as project
import fuzz_shares as shares

REPOSITORY = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPOSITORY))

# A command takes under 2 s of processor time; a machine may be busy, and then its clock says nothing.
CPU_SECONDS = 20
WALL_SECONDS = 600
MEMORY_BYTES = 1 << 30  # beside what this process has, which those of its commands share
ANSWERS = (0, 1, 2)
_BROKEN = ("Traceback (most recent call last)", "Error: internal error", "Segmentation fault")


class Ended(NamedTuple):
    """How a process ended: its exit code, or a signal's number below 0, and what it printed."""

    code: int
    printed: str
    cpu: float = 0.0
    """Seconds of processor time, those of its own processes included."""
    peak: int = 0
    """Bytes that it held at most, with what it shares with the fuzzer."""
    outside: bool = False
    """Whether it wrote outside of its project."""

    @property
    def fault(self) -> str:
        """What is wrong with it; empty where nothing is."""
        if self.outside:
            return "wrote outside of the project"
        if self.cpu > CPU_SECONDS:
            return f"took {self.cpu:.0f} s of processor time"
        if self.code < 0:
            return f"ended by {signal.Signals(-self.code).name}"
        if self.code not in ANSWERS:
            return f"exit code {self.code}"
        return next((f"prints {text!r}" for text in _BROKEN if text in self.printed), "")


def main() -> int:
    options = _options()
    _isolate()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        project.make(place / "template")
        _import_all()
        _warm_up(place / "template")
        if options.case is not None:
            case, ended = run_case(place, options.seed, options.case)
            print(f"{case}\n{ended.printed}\n{ended.fault or ended.code}")
            return bool(ended.fault)
        count = options.processes

        def share(first: int) -> dict[str, object]:
            own = place / f"share-{first}"
            project.copy(place / "template", own / "template")
            return _run_share(own, options.seed, options.seconds / count, range(first, sys.maxsize, count))

        actual = shares.summed(shares.run(share, count, place))
    print(json.dumps(actual, indent=1))
    if options.write:
        from benchmarks.lib.machine import describe, record  # noqa: PLC0415 (of the benchmarks)

        head = describe("pyyaml", "click")
        record("fuzz.json", json.dumps({**head, **actual}, indent=1) + "\n")
    return bool(actual["failures"])


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=1800, help="how long, in processor time")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--processes", type=int, default=1, help="how many share the inputs")
    parser.add_argument("--case", type=int, help="only this input, and what it prints")
    parser.add_argument("--write", action="store_true", help="write benchmarks/results/fuzz.json")
    return parser.parse_args()


def _isolate() -> None:
    """Nothing of the machine's: no GPU, no caches and no settings of whoever runs this."""
    for name in [name for name in os.environ if name.startswith("TILEWRIGHT_")]:
        del os.environ[name]
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    os.environ["TILEWRIGHT_JIT"] = "0"


def _import_all() -> None:
    """What commands import when they run, so that a forked process has it."""
    from importlib import import_module  # noqa: PLC0415

    from tilewright_generator import cli  # noqa: PLC0415

    for name in cli.COMMANDS:
        import_module(f"{cli.__name__}.{cli.module_of(name)}")
    for name in (
        "compile.building", "tools.doctor", "tools.benchmarking.problems",
        "tools.tuning.merging", "tools.tuning.report", "selection.tuned", "families.gemm.family",
        "families.blockscaled_gemm.family", "families.quantize.family",
    ):  # fmt: skip
        import_module(f"tilewright.{name}")
    for name in ("torch", "matplotlib.figure"):
        with suppress(ImportError):
            import_module(name)


def _warm_up(folder: Path) -> None:
    """Does once what every process would do again: templates are compiled, validators are built."""
    os.chdir(folder)
    with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere), redirect_stderr(nowhere):  # noqa: PTH123
        for command in (["check"], ["explain", "tile=128x128x64"], *cases.EXPLAIN):
            _invoke(command)
    os.chdir("/")
    gc.freeze()
    gc.set_threshold(100_000)  # as `tilewright` itself does


def _run_share(place: Path, seed: int, seconds: float, numbers: Iterable[int]) -> dict[str, object]:
    """Inputs of these numbers until the time is over."""
    started, inputs = _processor_seconds(), 0
    longest, largest, slowest = 0.0, 0, ""
    from tilewright_generator.cli import COMMANDS  # noqa: PLC0415

    codes: Counter[str] = Counter()
    targets: Counter[str] = Counter()
    commands: Counter[str] = Counter()
    failures = []
    ending = signal.signal(signal.SIGTERM, signal.default_int_handler)
    for number in numbers:
        if _processor_seconds() - started > seconds:
            break
        try:
            case, ended = run_case(place, seed, number)
        except KeyboardInterrupt:  # it is to end: what it has seen counts
            break
        if ended.cpu > longest:
            longest, slowest = ended.cpu, f"{case.what}: {' '.join(case.command)}"
        largest = max(largest, ended.peak)
        codes[str(ended.code)] += 1
        targets[case.target] += 1
        commands[case.command[0] if case.command else ""] += 1
        if ended.fault:
            failures.append(
                {"case": number, "fault": ended.fault, "what": case.what, "command": case.command}
            )
            print(f"{number}: {ended.fault}: {case}\n{ended.printed[-2000:]}", file=sys.stderr, flush=True)
        inputs += 1
        if inputs % 500 == 0:
            print(f"{inputs} inputs, {len(failures)} failures", file=sys.stderr, flush=True)
    signal.signal(signal.SIGTERM, ending)
    return {
        "seed": seed,
        "cpu_seconds": round(_processor_seconds() - started),
        "longest_cpu_seconds": round(longest, 1),
        "longest": slowest,
        "largest_peak_bytes": largest,
        "own_peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10,
        "inputs": inputs,
        "exit_codes": dict(sorted(codes.items())),
        "targets": dict(sorted(targets.items())),
        "commands": {name: commands[name] for name in COMMANDS},
        "failures": failures,
    }


def _processor_seconds() -> float:
    """The processor's time of this process and its children."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in used)


def run_case(place: Path, seed: int, number: int) -> tuple[cases.Case, Ended]:
    """Draws an input, and runs its command on a copy of the template."""
    folder, outside = place / "case", place / project.OUTSIDE
    shutil.rmtree(folder, ignore_errors=True)
    project.copy(place / "template", folder)
    project.make_outside(outside)
    case = cases.draw(random.Random(f"{seed}/{number}"), folder)
    ended = run(lambda: _command(folder, case), place / "printed")
    return case, ended._replace(outside=not project.is_untouched(outside))


def _command(folder: Path, case: cases.Case) -> int:
    from tilewright.compile import building  # noqa: PLC0415
    from tilewright.errors import BuildError  # noqa: PLC0415

    def refuse(*arguments: object) -> NoReturn:
        raise BuildError("nothing is compiled here")

    os.chdir(folder)
    os.environ["TILEWRIGHT_CACHE"] = str(folder / "cache")
    building.run_jobs = refuse  # command lines may well ask for a build
    return _invoke(case.command)


def _invoke(command: cases.Command) -> int:
    from tilewright_generator.cli import invoke  # noqa: PLC0415

    return invoke(command)


def run(work: Callable[[], int], printed: Path) -> Ended:
    """Does the work in a process of its own, bounded in time and memory, and says how that ended."""
    printed.write_bytes(b"")  # the process may be ended before it has printed anything
    child = os.fork()
    if not child:
        _become(work, printed)
    try:
        code, used = _wait(child)
    finally:
        _end(child)
    text = printed.read_text(encoding="utf-8", errors="replace")
    return Ended(code, text, used.ru_utime + used.ru_stime, used.ru_maxrss << 10)


def _become(work: Callable[[], int], printed: Path) -> None:
    """The forked process: it never returns."""
    code = 99
    try:
        os.setsid()  # so that its compilers and the like end with it
        output = os.open(printed, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for target, source in ((0, nothing), (1, output), (2, output)):
            os.dup2(source, target)
        sys.stdout = os.fdopen(1, "w", encoding="utf-8")
        sys.stderr = os.fdopen(2, "w", encoding="utf-8")
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS + 5, CPU_SECONDS + 5))
        most = _data_bytes() + MEMORY_BYTES
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        code = work()
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:
        import traceback  # noqa: PLC0415

        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(code)


def _data_bytes() -> int:
    """What RLIMIT_DATA counts of this process."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(next(line for line in status.splitlines() if line.startswith("VmData:")).split()[1]) << 10


def _wait(child: int) -> tuple[int, resource.struct_rusage]:
    """The exit code of a process, that of SIGALRM where it does not end; and what it used."""
    end = time.monotonic() + WALL_SECONDS
    pause = 0.001
    while time.monotonic() < end:
        done, status, used = os.wait4(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status), used
        time.sleep(pause)
        pause = min(0.05, pause * 1.5)
    os.kill(child, signal.SIGKILL)
    return -signal.SIGALRM, os.wait4(child, 0)[2]


def _end(group: int) -> None:
    """Ends what a process has started and left."""
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main())
