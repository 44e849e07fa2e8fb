"""What becomes of jobs when it is not the compiler that fails."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from small_modules import Mini

from tilewright.base import paths
from tilewright.compile import runner, system
from tilewright.compile.nvcc.toolchain import NvccToolchain
from tilewright.compile.planning import Planner
from tilewright.compile.progress import Progress
from tilewright.compile.store import Store
from tilewright.compile.unit import Job, Outcome
from tilewright.errors import StoreError, ToolchainError

FD_SETSIZE = 1024  # descriptors that select.select takes
BOUND = 500  # seconds that no load reaches


@pytest.fixture
def jobs(mini: Mini, store: Store, toolchain: NvccToolchain) -> list[Job]:
    table = mini.add("one").add("two").table()
    planner = Planner(toolchain, store, paths.include_dir())
    return [planner.kernel_job(planner.unit(table, record), 2, []) for record in table.values()]


class Noted(Progress):
    def __init__(self) -> None:
        self.messages: list[str] = []

    def message(self, text: str) -> None:
        self.messages.append(text)


def script(path: Path, text: str, mode: int = 0o755) -> Path:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(mode)
    return path


def test_ninja_that_fails_is_not_a_lack_of_memory(
    jobs: list[Job], store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ninja = script(tmp_path / "ninja", 'echo "ninja: fatal: pipe"; exit 3')
    monkeypatch.setattr(runner, "find_ninja", lambda: ninja)
    progress = Noted()
    with pytest.raises(ToolchainError, match="ninja exits 3; 2 of 2 units never ran\nninja: fatal: pipe"):
        runner.run_jobs(store, jobs, 2, progress)
    ninja.chmod(0o644)
    with pytest.raises(ToolchainError, match="Permission denied"):
        runner.run_jobs(store, jobs, 2, progress)
    assert progress.messages == []
    assert not list((store.root / "work").iterdir())


def test_the_last_lines_of_ninja_are_shown(
    jobs: list[Job], store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ninja = script(tmp_path / "ninja", 'for i in $(seq 30); do echo "line $i."; done; exit 3')
    monkeypatch.setattr(runner, "find_ninja", lambda: ninja)
    with pytest.raises(ToolchainError) as caught:
        runner.run_jobs(store, jobs, 2, Noted())
    assert caught.value.message.splitlines()[1:] == [f"line {number}." for number in range(11, 31)]


def test_words_of_ninjas_file_stay_as_they_are(tmp_path: Path) -> None:
    """The shell reads a command after ninja has put values in place of its variables."""
    name = "a 'quoted' $HOME"
    lines = ["rule show", f"  command = echo {runner._escape(name)}", "build out: show"]
    (tmp_path / "build.ninja").write_text("\n".join(lines) + "\n")
    ninja = subprocess.run(
        [runner.find_ninja(), "-v"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert ninja.stdout.splitlines()[-1] == name


def test_ninja_on_a_full_disk_says_so(
    jobs: list[Job], store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ninja = script(tmp_path / "ninja", 'echo "ninja: error: .ninja_log: No space left on device"; exit 1')
    monkeypatch.setattr(runner, "find_ninja", lambda: ninja)
    with pytest.raises(StoreError, match=f"no space left for the build cache in {store.root}"):
        runner.run_jobs(store, jobs, 2, Noted())


def test_a_unit_that_cannot_import_says_so(
    jobs: list[Job], store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken" / "tilewright").mkdir(parents=True)
    (tmp_path / "broken" / "tilewright" / "__init__.py").write_text("raise ImportError('half installed')\n")
    monkeypatch.setattr(runner, "_PACKAGE_ROOT", tmp_path / "broken")
    with pytest.raises(ToolchainError, match="half installed"):
        runner.run_jobs(store, jobs, 2, Noted())


def test_a_unit_that_is_killed_is_tried_again_alone(
    jobs: list[Job], store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The kill hits the unit's own process, which is the parent of its compiler.
    kill = script(tmp_path / "kill", "kill -9 $PPID")
    progress = Noted()
    outcomes = runner.run_jobs(store, [_replaced(job, [str(kill)]) for job in jobs], 2, progress)
    assert [outcome.message for outcome in outcomes.values()] == [
        "the process that compiled it was killed"
    ] * 2
    assert progress.messages == ["2 ran out of memory; compiling them one at a time"]


def test_what_is_tried_again_shares_no_process(
    jobs: list[Job], store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And a build of one job at a time has tried it alone already."""
    tries: list[tuple[list[bool], int]] = []

    def ninja(store: Store, jobs: Sequence[Job], parallel: int, progress: Progress) -> dict[str, Outcome]:
        tries.append(([job.quick for job in jobs], parallel))
        return {job.key: Outcome("failed", out_of_memory=True) for job in jobs}

    monkeypatch.setattr(runner, "_run_ninja", ninja)
    quick = [replace(job, quick=True) for job in jobs]
    runner.run_jobs(store, quick, 2, Noted())
    assert tries == [([True, True], 2), ([False, False], 1)]
    tries.clear()
    runner.run_jobs(store, quick, 1, Noted())
    assert tries == [([True, True], 1)]


def test_a_unit_that_includes_cutlass_takes_minutes(
    mini: Mini, store: Store, toolchain: NvccToolchain
) -> None:
    table = mini.add("one").table()
    planner = Planner(toolchain, store, paths.include_dir())
    unit = planner.unit(table, table["one"])
    assert planner.kernel_job(unit, 1, []).quick
    unit.cutlass = True
    assert not planner.kernel_job(unit, 1, []).quick


def test_an_entry_that_is_gone_when_it_is_made_is_a_failure(
    mini: Mini, store: Store, toolchain: NvccToolchain
) -> None:
    """As where another process sets a broken entry aside."""
    table = mini.add("one").table()
    planner = Planner(toolchain, store, paths.include_dir())
    unit = planner.unit(table, table["one"])
    unit.settle(Outcome("built"), store, planner.kernel_job(unit, 1, []))
    report = unit.report()
    assert report.status == "failed"
    assert [finding.message for finding in report.findings] == [
        "its entry in the build cache is broken; build again"
    ]


def _replaced(job: Job, command: list[str]) -> Job:
    return replace(job, command=command)


def test_the_path_of_units_is_changed_in_a_checkout_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/mine")
    root = str(paths.include_dir().parent)
    assert runner._environment()["PYTHONPATH"] == f"{root}{os.pathsep}/mine"
    monkeypatch.setattr(paths, "in_checkout", lambda: False)
    assert runner._environment()["PYTHONPATH"] == "/mine"


def test_the_units_under_way_are_named(
    mini: Mini, store: Store, toolchain: NvccToolchain, tmp_path: Path
) -> None:
    """A compiler waits until a tick has named its unit."""
    go = tmp_path / "go"
    waits = script(tmp_path / "waits", f'while [ ! -e {go} ]; do sleep 0.02; done; exec "$@"')
    table = mini.add("one").table()
    planner = Planner(toolchain, store, paths.include_dir())
    job = planner.kernel_job(planner.unit(table, table["one"]), 1, [str(waits)])

    class Ticking(Progress):
        seen: list[list[str]] = []  # noqa: RUF012

        def tick(self, running: Sequence[str]) -> None:
            self.seen.append([*running])
            if running:
                go.touch()

    (outcome,) = runner.run_jobs(store, [job], 1, Ticking()).values()
    assert outcome.status == "built"
    assert ["one"] in Ticking.seen
    assert all(seen in ([], ["one"]) for seen in Ticking.seen)


def test_a_unit_is_under_way_from_its_empty_result_to_its_whole_one(tmp_path: Path) -> None:
    names = {tmp_path / name: name for name in ("began", "ended", "waits")}
    (tmp_path / "began").touch()
    (tmp_path / "ended").write_text("{}")
    assert runner._running(names) == ["began"]


@pytest.fixture
def _thousands_of_open_files() -> Iterator[None]:
    """As servers have. The next file of this process has a descriptor that select.select does not take."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2 * FD_SETSIZE:
        pytest.skip(f"a process may open {hard} files here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (2 * FD_SETSIZE, hard))
    descriptors: list[int] = []
    try:
        while not descriptors or descriptors[-1] < FD_SETSIZE:
            descriptors.append(os.open(os.devnull, os.O_RDONLY))
        yield
    finally:
        for descriptor in descriptors:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.usefixtures("_thousands_of_open_files")
def test_a_process_with_thousands_of_open_files_reads_what_commands_print() -> None:
    assert system.run_bounded([sys.executable, "-c", "print('said')"], timeout=BOUND) == (0, "said\n")
    reading, writing = os.pipe()
    try:
        os.write(writing, b"first\nlast")
        os.close(writing)
        assert [*runner._lines(reading, lambda: None)] == ["first", "last"]
    finally:
        os.close(reading)


def test_time_passes_while_ninja_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "_TICK_SECONDS", 0.01)
    reading, writing = os.pipe()
    ticks = []

    def tick() -> None:
        ticks.append(None)
        if len(ticks) == 2:
            os.close(writing)

    try:
        assert [*runner._lines(reading, tick)] == []
    finally:
        os.close(reading)
    assert len(ticks) == 2


def test_an_interrupt_ends_ninja(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also in a process that goes on, as a shell of Python does."""
    ended = []

    def interrupted() -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", "import time; time.sleep(10000)"]
        with suppress(KeyboardInterrupt), runner._process(command, tmp_path, dict(os.environ)) as process:
            terminate = process.terminate
            monkeypatch.setattr(process, "terminate", lambda: ended.append(terminate()))
            raise KeyboardInterrupt
        return process

    process = interrupted()
    if not ended:
        process.kill()
    assert process.wait() == -signal.SIGTERM


def test_what_units_say_goes_to_the_progress_alone(
    jobs: list[Job], store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Units(Noted):
        def done(self, name: str, status: str) -> None:
            self.messages.append(f"{name} is {status}")

    ninja = script(tmp_path / "ninja", 'echo "tilewright-unit one built"; echo "ninja: no"; exit 3')
    monkeypatch.setattr(runner, "find_ninja", lambda: ninja)
    progress = Units()
    with pytest.raises(ToolchainError) as caught:
        runner.run_jobs(store, jobs, 2, progress)
    assert caught.value.message.splitlines()[1:] == ["ninja: no"]
    assert progress.messages == ["one is built"]


def test_ninja_of_path_serves_where_the_wheel_lacks_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    on_path = script(tmp_path / "ninja", "exit 0")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "ninja", SimpleNamespace(BIN_DIR=str(tmp_path / "nothing")))
    assert runner.find_ninja() == on_path
    on_path.unlink()
    with pytest.raises(ToolchainError, match="no ninja"):
        runner.find_ninja()
