"""Runs compile jobs under ninja and tells a progress listener as they finish."""

from __future__ import annotations

import errno
import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from tilewright.base import paths, reading
from tilewright.compile import names, schemas
from tilewright.compile.disk import says_full
from tilewright.compile.progress import Progress
from tilewright.compile.store import Store
from tilewright.compile.system import readable, shortened, start
from tilewright.compile.unit import Job, Outcome
from tilewright.errors import ToolchainError, UnreadableFileError

log = logging.getLogger("tilewright")

_TICK_SECONDS = 0.5
_TOGETHER = 8  # quick jobs of one process
_MARK = "tilewright-unit "
_PACKAGE_ROOT = Path(__file__).resolve().parents[2]

# ninja must not outlive a build that was killed: SIGTERM (15) on the death of the parent (PR_SET_PDEATHSIG
# is 1), on which ninja stops its compilers.
_BIND = "import ctypes,os,sys; ctypes.CDLL(None).prctl(1, 15); os.execv(sys.argv[1], sys.argv[1:])"


def run_jobs(store: Store, jobs: Sequence[Job], parallel: int, progress: Progress) -> dict[str, Outcome]:
    """Compiles `jobs`, `parallel` at a time, and returns the outcome of each by its key.

    If the system killed a unit's compiler for lack of memory, the unit is tried once more, alone. Raises
    ToolchainError with ninja's output if ninja itself fails.
    """
    outcomes = _run_ninja(store, jobs, parallel, progress)
    # Each in a process of its own: one that is killed takes others with it.
    starved = [replace(job, quick=False) for job in jobs if outcomes[job.key].out_of_memory]
    if starved and parallel > 1:
        progress.message(f"{len(starved)} ran out of memory; compiling them one at a time")
        outcomes.update(_run_ninja(store, starved, 1, progress))
    return outcomes


def work_folder(store: Store) -> Path:
    """A fresh folder for the files of one build."""
    folder = store.folder("work") / names.unused(f"{os.getpid()}-")
    try:
        folder.mkdir()
    except OSError as error:
        raise store.failure(error) from None
    return folder


def _run_ninja(store: Store, jobs: Sequence[Job], parallel: int, progress: Progress) -> dict[str, Outcome]:
    folder = work_folder(store)
    try:
        _write(store, folder, jobs, parallel)
        results = {job.key: folder / f"{job.key}.result" for job in jobs}
        units = {path: job.name for path, job in zip(results.values(), jobs, strict=True)}
        status, output = _execute(folder, parallel, progress, units)
        never = sum(not path.exists() for path in results.values())  # a unit that starts makes its result
        if never and says_full(output):
            raise store.failure(OSError(errno.ENOSPC, "No space left on device"))
        if never:
            raise ToolchainError(
                f"ninja exits {status}; {never} of {len(jobs)} units never ran\n{_tail(output)}"
            )
        return {key: _outcome(store, path, output) for key, path in results.items()}
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _processes(jobs: Sequence[Job], parallel: int) -> Iterator[list[Job]]:
    """Groups the jobs, in order, into those that one process runs: several quick jobs for one target. Groups
    get smaller towards the end, so that all processes end at about the same time."""
    first = 0
    while first < len(jobs):
        most = min(_TOGETHER, max(1, (len(jobs) - first) // (4 * parallel)))
        end = first + 1
        while end < first + most and all(
            job.quick and (job.arch, job.compiler) == (jobs[first].arch, jobs[first].compiler)
            for job in jobs[first : end + 1]
        ):
            end += 1
        yield [*jobs[first:end]]
        first = end


def _write(store: Store, folder: Path, jobs: Sequence[Job], parallel: int) -> None:
    """The job files, and a ninja file with one independent edge a process (`_processes`)."""
    lines = [
        "ninja_required_version = 1.5",
        "rule unit",
        f"  command = {_escape(sys.executable)} -m tilewright.compile.unit $in $out",
    ]
    try:
        for job in jobs:
            job.write(folder / f"{job.key}.json")
        for together in _processes(jobs, parallel):
            files, results = (" ".join(f"{job.key}.{end}" for job in together) for end in ("json", "result"))
            lines.append(f"build {results}: unit {files}")
        (folder / "build.ninja").write_text("\n".join(lines) + "\n", encoding="utf-8")
    except OSError as error:
        raise store.failure(error) from None


def _escape(path: str) -> str:
    return "'" + path.replace("'", "'\\''").replace("$", "$$") + "'"


def _environment() -> dict[str, str]:
    """The environment in which a unit's process imports tilewright.

    An installed package is found by itself; its parent folder, site-packages, must not go before the standard
    library.
    """
    if not paths.in_checkout():
        return dict(os.environ)
    search = os.pathsep.join(filter(None, (str(_PACKAGE_ROOT), os.environ.get("PYTHONPATH"))))
    return {**os.environ, "PYTHONPATH": search}


def _execute(folder: Path, parallel: int, progress: Progress, units: Mapping[Path, str]) -> tuple[int, str]:
    """Runs ninja to its end: its exit status, and what it printed besides the units' own lines. `units` are
    the names of the units, by the files of their results."""
    command = [sys.executable, "-ISc", _BIND, str(find_ninja()), "--quiet", "-k0", f"-j{parallel}"]
    rest: list[str] = []
    log.debug("ninja in %s: %s", folder, " ".join(command[3:]))
    with _process(command, folder, _environment()) as process:
        assert process.stdout is not None
        for line in _lines(process.stdout.fileno(), lambda: progress.tick(_running(units))):
            if line.startswith(_MARK):
                _, name, status = line.split()
                progress.done(name, status)
            else:
                rest.append(line)
    return process.returncode, "\n".join(rest)


@contextmanager
def _process(command: list[str], cwd: Path, environment: dict[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    with start(command, cwd, environment) as process:
        try:
            yield process
        finally:
            if process.poll() is None and sys.exc_info()[0] is not None:
                process.terminate()  # an interrupt: ninja stops its compilers


def _running(units: Mapping[Path, str]) -> list[str]:
    """The units that have begun and not ended: what they make first is an empty result."""
    running = []
    for path, name in units.items():
        with suppress(FileNotFoundError):
            if not path.stat().st_size:
                running.append(name)
    return running


def _lines(descriptor: int, tick: Callable[[], None]) -> Iterator[str]:
    """Lines as they come; between them `tick` is called, about twice a second."""
    pending = b""
    while True:
        if not readable(descriptor, _TICK_SECONDS):
            tick()
            continue
        block = os.read(descriptor, 1 << 16)
        if not block:
            break
        *lines, pending = (pending + block).split(b"\n")
        for line in lines:
            yield line.decode(errors="replace")
    if pending:
        yield pending.decode(errors="replace")


def _outcome(store: Store, result: Path, output: str) -> Outcome:
    try:
        return Outcome(**reading.load_json(result, schemas.OUTCOME))
    except (OSError, UnreadableFileError):
        if says_full(output):
            return Outcome("failed", str(store.failure(OSError(errno.ENOSPC, "No space left on device"))))
        # The unit's own process died: nothing else leaves an empty result.
        message = "the process that compiled it was killed"
        return Outcome("failed", message, [_tail(output)], out_of_memory=True)


def _tail(output: str) -> str:
    return "\n".join(map(shortened, output.splitlines()[-20:]))


def find_ninja() -> Path:
    """ninja of the wheel, else of PATH."""
    try:
        import ninja  # noqa: PLC0415 (only a build needs it)

        path = Path(ninja.BIN_DIR) / "ninja"
        if path.exists():
            return path
    except (ImportError, AttributeError):
        pass
    on_path = shutil.which("ninja")
    if on_path is None:
        raise ToolchainError("no ninja: neither the wheel nor on PATH", hint="pip install ninja")
    return Path(on_path)
