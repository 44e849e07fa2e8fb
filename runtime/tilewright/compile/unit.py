"""Compiles units: what ninja runs, `python -m tilewright.compile.unit JOB.json ... RESULT ...`.

The compiler writes into a folder of its own; what it made is examined and then moved into the store whole.
Nothing else ever writes an entry. Several units of one process, which are compiled one after the other, share
what Python (0.1 s) and nvdisasm (0.2 s) take to start; a lean unit's compiler takes 1.2 s.
"""

from __future__ import annotations

import errno
import json
import os
import re
import resource
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from tilewright.compile import compiler_cache
from tilewright.compile.commands import DEPFILE, OBJECT
from tilewright.compile.compilers import COMPILERS
from tilewright.compile.depfile import unhashed_inputs
from tilewright.compile.disk import says_full
from tilewright.compile.keys import KEY_FORMAT, file_sha256
from tilewright.compile.machine_code import MachineCode
from tilewright.compile.store import Store
from tilewright.compile.system import run_bounded, shell
from tilewright.declarations.table import DEFAULT_COMPILER
from tilewright.errors import BuildError, StoreError, TilewrightError

_Made = TypeVar("_Made")

_KILLED = re.compile(
    r"died due to signal 9|\bKilled\b|cannot allocate memory|out of memory|memory allocation failure", re.I
)


@dataclass(frozen=True)
class Job:
    """One unit to compile; all paths are absolute."""

    name: str
    module: str
    kind: str  # "kernel", or "table" for a module's table.cc, which holds no device code
    arch: str  # "" for a table
    key: str
    source: str
    inputs: dict[str, str]  # sha256 by path of the files that are in the key one by one: source, headers
    roots: list[str]  # folders that are in the key as a whole
    command: list[str]
    disassembler: str  # what the compiler's `machine_code` takes
    store: str
    slots: int  # compilers that may run at once on this machine
    quick: bool = False  # a kernel without CUTLASS's headers, which takes seconds
    compiler: str = DEFAULT_COMPILER  # its name in `compilers.COMPILERS`

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self)), encoding="utf-8")


@dataclass
class Outcome:
    """The outcome of a job."""

    status: str  # "built", "shared" (another process built it meanwhile) or "failed"
    message: str = ""
    errors: list[str] = field(default_factory=list)  # the compiler's first errors, with their context
    log: str = ""  # path of the compiler's whole output
    out_of_memory: bool = False
    refused: bool = False  # the compiler says what is wrong with the source: it would again


@dataclass(frozen=True)
class _Compiled:
    """The compiler's output for a job, in a folder of its own."""

    job: Job
    draft: Path
    log: str
    seconds: float
    peak_memory_bytes: int  # of the largest process yet


def run(jobs: Sequence[Job]) -> list[Outcome]:
    """Compiles the units, all of one target and compiler, that the store lacks; holds their locks."""
    store = Store(Path(jobs[0].store))
    outcomes: dict[str, Outcome] = {}
    with ExitStack() as held:
        for key in sorted(job.key for job in jobs):  # in one order: else two processes wait for each other
            held.enter_context(store.lock(key))
        missing = [job for job in jobs if store.entry(job.key) is None]
        if missing:
            held.enter_context(store.slot(missing[0].slots))
        compiled = []
        for job in missing:
            result = _attempt(store, partial(_compile, job, store, held))
            if isinstance(result, Outcome):
                outcomes[job.key] = result
            else:
                compiled.append(result)
        code = _machine_code(store, compiled)
        for unit in compiled:
            outcomes[unit.job.key] = _attempt(store, partial(_commit, unit, code.get(unit.job.key), store))
    return [outcomes.get(job.key, Outcome("shared")) for job in jobs]


def _attempt(store: Store, step: Callable[[], _Made]) -> _Made | Outcome:
    """The result of a step, or an outcome that says how it failed."""
    try:
        return step()
    except (BuildError, StoreError) as error:
        return Outcome("failed", str(error))
    except OSError as error:
        return Outcome("failed", str(store.failure(error)))


def _compile(job: Job, store: Store, held: ExitStack) -> _Compiled | Outcome:
    started = time.monotonic()
    draft = store.draft(job.key)
    held.callback(shutil.rmtree, draft, ignore_errors=True)
    scratch = draft / "scratch"
    scratch.mkdir()
    status, log = _call(job.command, draft, scratch)
    seconds = time.monotonic() - started
    absent = [name for name in (OBJECT, DEPFILE) if not _has_content(draft / name)]
    if status != 0 or absent:
        return _failure(job, store, status, log, absent)
    (draft / "log.txt").write_text(log, encoding="utf-8")
    _check_inputs(job, draft)
    shutil.rmtree(scratch, ignore_errors=True)
    (draft / DEPFILE).unlink()
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    return _Compiled(job, draft, log, seconds, peak)


def _machine_code(store: Store, compiled: Sequence[_Compiled]) -> dict[str, MachineCode]:
    """The machine code of the kernels, by key. Empty if one object cannot be read: then each is read
    separately, and only the unreadable one fails."""
    kernels = [kernel for kernel in compiled if kernel.job.kind == "kernel"]
    if len(kernels) < 2:
        return {}
    first, paths = kernels[0].job, [kernel.draft / OBJECT for kernel in kernels]
    codes = _attempt(store, partial(COMPILERS[first.compiler].machine_code, first.disassembler, paths))
    if isinstance(codes, Outcome):
        return {}
    return {kernel.job.key: code for kernel, code in zip(kernels, codes, strict=True)}


def _commit(compiled: _Compiled, code: MachineCode | None, store: Store) -> Outcome:
    job, object_file = compiled.job, compiled.draft / OBJECT
    report: dict[str, Any] = {
        "format": KEY_FORMAT,
        "key": job.key,
        "name": job.name,
        "module": job.module,
        "kind": job.kind,
        "arch": job.arch,
        "source_sha256": job.inputs[job.source],
        "object": {"sha256": file_sha256(object_file), "bytes": object_file.stat().st_size},
        "seconds": round(compiled.seconds, 2),
        "peak_memory_bytes": compiled.peak_memory_bytes,
        "command": job.command,
    }
    if job.kind == "kernel":
        compiler = COMPILERS[job.compiler]
        if code is None:
            (code,) = compiler.machine_code(job.disassembler, [object_file])
        report.update(compiler.report(object_file, job.name, compiled.log, code), machine_code=code.digest)
    (compiled.draft / "report.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    store.commit(compiled.draft, store.root / "objects" / job.key)
    return Outcome("built")


def _call(command: Sequence[str], cwd: Path, scratch: Path) -> tuple[int, str]:
    """Runs a compiler; its intermediate files go to `scratch`, so a kill leaves them inside the cache."""
    environment = {**compiler_cache.SETTINGS, **os.environ, "TMPDIR": str(scratch)}
    try:
        return run_bounded(command, cwd=cwd, environment=environment)
    except OSError as error:
        raise BuildError(f"{command[0]} cannot be run: {error.strerror}") from None


def _check_inputs(job: Job, draft: Path) -> None:
    """The object belongs to its key only if it was made of what the key was computed from."""
    for path, sha256 in job.inputs.items():
        if file_sha256(Path(path)) != sha256:
            raise BuildError(f"{path} changed while {job.name} was compiled; build again")
    depfile = (draft / DEPFILE).read_text(encoding="utf-8", errors="replace")
    if strange := unhashed_inputs(depfile, draft, job.inputs, job.roots):
        listed = "\n".join(f"  {path}" for path in strange[:10])
        raise BuildError(
            f"{job.name} includes files that its key does not cover:\n{listed}",
            hint='A source may include "tilewright/...", CUTLASS, the CUDA toolkit and system headers.',
        )


def _has_content(path: Path) -> bool:
    return path.is_file() and path.stat().st_size > 0


def _failure(job: Job, store: Store, status: int, log: str, absent: Sequence[str]) -> Outcome:
    """The outcome of a compiler that fails, or that exits 0 and leaves files `absent`."""
    if says_full(log):
        full = store.failure(OSError(errno.ENOSPC, "No space left on device"))
        return Outcome("failed", str(full))
    compiler = COMPILERS[job.compiler]
    killed = status in (-9, 137) or (status != 0 and _KILLED.search(log) is not None)
    what = f"exits {status}"
    if status == 0:
        what += f" and wrote no {' and no '.join(absent)}"
    elif killed:
        what = "was killed, probably because memory ran out"
    return Outcome(
        "failed",
        f"the compiler {what}",
        errors=compiler.errors(log),
        log=_keep_log(job, store, log),
        out_of_memory=killed,
        refused=status != 0 and not killed and re.search(compiler.diagnosis, log) is not None,
    )


def _keep_log(job: Job, store: Store, log: str) -> str:
    """Keeps the compiler's output of a failed unit, under the command that repeats it."""
    path = store.folder("logs") / f"{job.name}.{job.key[:8]}.log"
    try:
        path.write_text(f"$ {shell(job.command)}\n{log}", encoding="utf-8")
    except OSError:
        return ""
    return str(path)


def main(arguments: Sequence[str]) -> int:
    count = len(arguments) // 2
    job_files, result_files = map(Path, arguments[:count]), [*map(Path, arguments[count:])]
    for file in result_files:
        file.touch()  # empty where this process is killed, absent where it never ran
    jobs = [Job(**json.loads(file.read_text(encoding="utf-8"))) for file in job_files]
    try:
        outcomes = run(jobs)
    except TilewrightError as error:
        outcomes = [Outcome("failed", str(error))] * count
    for job, file, outcome in zip(jobs, result_files, outcomes, strict=True):
        try:
            file.write_text(json.dumps(asdict(outcome)), encoding="utf-8")
        except OSError as error:  # the disk is full; what ninja passes on says so
            print(error, flush=True)
        print(f"tilewright-unit {job.name} {outcome.status}", flush=True)
    return 0 if all(outcome.status != "failed" for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
