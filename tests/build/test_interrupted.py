"""Kills, several processes at once, full disks: nothing half-made is ever used, nothing is made twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from small_modules import Mini, build_process

from tilewright.build.building import build
from tilewright.build.store import Store
from tilewright.build.toolchain import Toolchain
from tilewright.errors import StoreError

pytestmark = pytest.mark.compile
Launcher = Callable[..., tuple[list[str], Path]]


def start(*arguments: object, **keywords: object) -> subprocess.Popen[str]:
    command, environment = build_process(*arguments, **keywords)  # type: ignore[arg-type]
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def wait_for(condition: Callable[[], object], seconds: float = 60) -> None:
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit, "nothing happened"
        time.sleep(0.02)


def processes_of(store: Store) -> list[int]:
    """Every process of a build in `store`: they all name it or work in it."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            line = (folder / "cmdline").read_bytes().decode(errors="replace")
            cwd = str((folder / "cwd").readlink())
        except OSError:
            continue
        if (str(store.root) in line or cwd.startswith(str(store.root))) and int(folder.name) != os.getpid():
            found.append(int(folder.name))
    return found


def objects(store: Store) -> list[Path]:
    return list((store.root / "objects").glob("*/kernel.o"))


def test_a_killed_build_stops_its_compilers_and_is_resumed(
    mini: Mini, store: Store, toolchain: Toolchain, launcher: Launcher
) -> None:
    command, notes = launcher('[ "$(grep -c start $NOTES)" -gt 1 ] && sleep 5')
    table = mini.add("one", number=1).add("two", number=2).add("three", number=3).table()
    process = start(table, store, 1, command)
    wait_for(lambda: notes.exists() and notes.read_text().count("start") == 2)
    process.kill()
    process.wait()
    wait_for(lambda: not processes_of(store), 4)  # before the sleep is over
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
    mini: Mini, store: Store, toolchain: Toolchain, launcher: Launcher
) -> None:
    command, notes = launcher(
        '"$@"; echo compiled >> $NOTES; sleep 30'
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


def test_two_processes_build_each_kernel_once(
    mini: Mini, store: Store, toolchain: Toolchain, launcher: Launcher
) -> None:
    command, notes = launcher("sleep 0.5")
    table = mini.add("one", number=1).add("two", number=2).table()
    both = [start(table, store, 2, command) for _ in range(2)]
    outputs = [process.communicate(timeout=120)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0], outputs
    assert notes.read_text().count("start") == 2
    words = " ".join(outputs).split()
    assert words.count("built") == words.count("shared") + words.count("cached") == 2


def test_two_builds_together_stay_within_the_bound(
    mini: Mini, store: Store, toolchain: Toolchain, launcher: Launcher
) -> None:
    command, notes = launcher("sleep 0.2")
    table = mini.add("one").add("two").add("three").add("four").table()
    both = [start(table, store, 1, command, names) for names in (["one", "two"], ["three", "four"])]
    assert [process.wait(timeout=120) for process in both] == [0, 0]
    running = highest = 0
    for line in notes.read_text().splitlines():
        running += 1 if line.startswith("start") else -1
        highest = max(highest, running)
    assert highest == 1


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode != 0:
        pytest.skip(f"may not mount a small disk here: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_is_named_and_harms_nothing(mini: Mini, small_disk: Path, toolchain: Toolchain) -> None:
    store = Store(small_disk / "cache")
    table = mini.add("one", number=1).table()
    try:
        said = build([table], store=store, toolchain=toolchain).explain_failures()
    except StoreError as error:
        said = str(error)
    assert "no space left for the build cache" in said
    assert "TILEWRIGHT_CACHE" in said
    assert all(store.entry(path.parent.name) for path in objects(store))  # table.cc may have fitted
    subprocess.run(["mount", "-o", "remount,size=200m", str(small_disk)], check=True)
    report = build([table], store=store, toolchain=toolchain)
    assert report.ok, report.explain_failures()
    assert report.units[0].status == "built"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_cache_that_cannot_be_written(mini: Mini, tmp_path: Path, toolchain: Toolchain) -> None:
    (tmp_path / "cache").mkdir(mode=0o500)
    with pytest.raises(StoreError, match="TILEWRIGHT_CACHE"):
        build([mini.add("one").table()], store=Store(tmp_path / "cache"), toolchain=toolchain)


def test_an_interrupt_stops_the_compilers(
    mini: Mini, store: Store, toolchain: Toolchain, launcher: Launcher
) -> None:
    command, notes = launcher("sleep 30")
    process = start(mini.add("one").table(), store, 1, command)
    wait_for(lambda: notes.exists() and "start" in notes.read_text())
    process.send_signal(signal.SIGINT)
    process.wait(timeout=10)
    wait_for(lambda: not processes_of(store), 5)
    assert not list((store.root / "work").iterdir())


if sys.platform != "linux":
    pytest.skip("the build runs on Linux", allow_module_level=True)
