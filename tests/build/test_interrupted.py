"""Kills, and several processes at once: nothing half-made is ever used, nothing is made twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from small_modules import Mini, build_process, python

from tilewright.compile.building import build
from tilewright.compile.library import libraries
from tilewright.compile.nvcc.toolchain import NvccToolchain
from tilewright.compile.store import Store
from tilewright.errors import StoreError

pytestmark = pytest.mark.compile
Launcher = Callable[..., tuple[list[str], Path]]
BOUND = 500  # seconds that no load reaches


@pytest.fixture(autouse=True)
def _interrupts_reach_children() -> Iterator[None]:
    """A shell that runs tests in the background has interrupts ignored, and children would inherit that."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def start(*arguments: object, **keywords: object) -> subprocess.Popen[str]:
    command, environment = build_process(*arguments, **keywords)  # type: ignore[arg-type]
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def wait_for(condition: Callable[[], object]) -> None:
    limit = time.monotonic() + BOUND
    while not condition():
        assert time.monotonic() < limit, "nothing happened"
        time.sleep(0.02)


def processes_of(store: Store) -> list[int]:
    """Every process of a build in `store`: they all name it or work in it."""
    actual = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            line = (folder / "cmdline").read_bytes().decode(errors="replace")
            cwd = str((folder / "cwd").readlink())
        except OSError:
            continue
        if (str(store.root) in line or cwd.startswith(str(store.root))) and int(folder.name) != os.getpid():
            actual.append(int(folder.name))
    return actual


def objects(store: Store) -> list[Path]:
    return list((store.root / "objects").glob("*/kernel.o"))


def test_a_killed_build_stops_its_compilers_and_is_resumed(
    mini: Mini, store: Store, toolchain: NvccToolchain, launcher: Launcher
) -> None:
    command, notes = launcher('[ "$(grep -c start $NOTES)" -gt 1 ] && sleep 100000')
    table = mini.add("one", number=1).add("two", number=2).add("three", number=3).table()
    process = start(table, store, 1, command)
    wait_for(lambda: notes.exists() and notes.read_text().count("start") == 2)
    process.kill()
    process.wait()
    wait_for(lambda: not processes_of(store))  # the sleep is not over
    done = len(objects(store))
    assert done >= 1

    launched = notes.read_text().count("start")
    command, _ = launcher()
    report = build([table], store=store, toolchain=toolchain, launcher=command)
    assert report.ok, report.explain_failures()
    assert report.count("cached") == 1
    assert notes.read_text().count("start") == launched + 2
    assert len(report.libraries[0].kernels) == 3


def test_killing_everything_at_once_leaves_nothing_half_made(
    mini: Mini, store: Store, toolchain: NvccToolchain, launcher: Launcher
) -> None:
    command, notes = launcher(
        '"$@"; echo compiled >> $NOTES; sleep 100000'
    )  # there is a whole kernel.o in tmp/ then
    table = mini.add("one", number=1).table()
    process = start(table, store, 1, command)
    wait_for(lambda: notes.exists() and "compiled" in notes.read_text())
    for number in [process.pid, *processes_of(store)]:
        with suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)
    process.wait()
    assert list((store.root / "tmp").glob("*/kernel.o"))
    report = build([table], store=store, toolchain=toolchain)
    assert report.units[0].status == "built"
    assert not list((store.root / "tmp").iterdir())


@pytest.mark.parametrize("jobs", [1, 2])  # of several units, a killed one is tried again alone
@pytest.mark.parametrize("which", ["nvcc", "host"])
def test_a_compiler_that_is_killed(
    mini: Mini,
    store: Store,
    toolchain: NvccToolchain,
    launcher: Launcher,
    *,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    which: str,
    jobs: int,
) -> None:
    """nvcc, or the host's compiler that nvcc runs, is killed each time that it compiles."""
    deaths, command = tmp_path / "deaths", []
    die = f"echo killed >> {deaths}; kill -9 $$"
    if which == "nvcc":
        command, _ = launcher(die)
    else:
        compiler = tmp_path / "g++"
        host = " ".join(toolchain.host)
        unit = f'case "$*" in *-D__CUDACC__*) {die} ;; esac'
        compiler.write_text(f'#!/bin/sh\n{unit}\nexec {host} "$@"\n')
        compiler.chmod(0o755)
        monkeypatch.setenv("CXX", str(compiler))
    table = mini.add("one", number=1).table()
    process = start(table, store, jobs, command)
    said = process.communicate(timeout=BOUND)[0]
    assert len(deaths.read_text().split()) >= jobs
    assert process.returncode == 1
    assert "the compiler was killed, probably because memory ran out" in said
    assert not [
        path
        for path in objects(store)
        if json.loads(path.with_name("report.json").read_text())["name"] == "one"
    ]
    assert libraries("mini", store=store) == []

    monkeypatch.undo()
    report = build([table], store=store, toolchain=toolchain)
    assert report.ok, report.explain_failures()
    assert report.units[0].status == "built"


FIRST_USE = """
import json, sys
from pathlib import Path
from tilewright.libraries.registry import Registry
registry = Registry(Path(sys.argv[1]))
library = registry.library(registry.record("one"))
print(json.dumps({"path": str(library.path), "number": library._module.number("one")}))
"""


def test_two_processes_that_need_a_kernel_compile_it_once_and_load_it(
    mini: Mini, store: Store, toolchain: NvccToolchain, launcher: Launcher
) -> None:
    command, notes = launcher("sleep 0.5")
    table = mini.add("one", number=7).table()
    line, environment = python(FIRST_USE, table.folder.parent)
    environment |= {"TILEWRIGHT_CACHE": str(store.root), "TILEWRIGHT_LAUNCHER": " ".join(command)}
    both = [
        subprocess.Popen(line, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    said = [process.communicate(timeout=BOUND) for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    assert notes.read_text().count("start") == 1
    first, second = (json.loads(out) for out, _ in said)
    assert first == second
    assert first["number"] == 7


def test_two_processes_build_each_kernel_once(
    mini: Mini, store: Store, toolchain: NvccToolchain, launcher: Launcher
) -> None:
    command, notes = launcher("sleep 0.5")
    table = mini.add("one", number=1).add("two", number=2).table()
    both = [start(table, store, 2, command) for _ in range(2)]
    outputs = [process.communicate(timeout=BOUND)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0], outputs
    assert notes.read_text().count("start") == 2
    words = " ".join(outputs).split()
    assert words.count("built") == words.count("shared") + words.count("cached") == 2


def test_two_builds_together_stay_within_the_bound(
    mini: Mini, store: Store, toolchain: NvccToolchain, launcher: Launcher
) -> None:
    command, notes = launcher("sleep 0.2")
    table = mini.add("one").add("two").add("three").add("four").table()
    both = [start(table, store, 1, command, names) for names in (["one", "two"], ["three", "four"])]
    assert [process.wait(timeout=BOUND) for process in both] == [0, 0]
    running = highest = 0
    for line in notes.read_text().splitlines():
        running += 1 if line.startswith("start") else -1
        highest = max(highest, running)
    assert highest == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_cache_that_cannot_be_written(mini: Mini, tmp_path: Path, toolchain: NvccToolchain) -> None:
    (tmp_path / "cache").mkdir(mode=0o500)
    with pytest.raises(StoreError, match="TILEWRIGHT_CACHE"):
        build([mini.add("one").table()], store=Store(tmp_path / "cache"), toolchain=toolchain)


def test_an_interrupt_stops_the_compilers(
    mini: Mini, store: Store, toolchain: NvccToolchain, launcher: Launcher
) -> None:
    command, notes = launcher("sleep 100000")
    process = start(mini.add("one").table(), store, 1, command)
    wait_for(lambda: notes.exists() and "start" in notes.read_text())
    process.send_signal(signal.SIGINT)
    process.wait(timeout=BOUND)
    wait_for(lambda: not processes_of(store))
    assert not list((store.root / "work").iterdir())


if sys.platform != "linux":
    pytest.skip("the build runs on Linux", allow_module_level=True)


def test_an_interrupt_says_what_is_kept_and_that_the_same_command_goes_on(
    mini: Mini, store: Store, toolchain: NvccToolchain, launcher: Launcher, tmp_path: Path
) -> None:
    command, notes = launcher('[ "$(grep -c start $NOTES)" -gt 1 ] && sleep 100000')
    mini.add("one", number=1).add("two", number=2).table()
    (tmp_path / "specs").mkdir()
    words = ["build", "--jobs", "1", "--launcher", command[0], "--cache", store.root, "--root", tmp_path]
    code = "from tilewright_generator.cli import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", code, *map(str, words)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(map(str, sys.path))},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_for(lambda: notes.exists() and notes.read_text().count("start") == 2)
    wait_for(lambda: len(objects(store)) == 1)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=BOUND)
    assert process.returncode == 130
    assert "\n1 of 3 units are compiled and kept; the same command goes on with the other 2\n" in said
    assert said.count("interrupted") == 1
    wait_for(lambda: not processes_of(store))
