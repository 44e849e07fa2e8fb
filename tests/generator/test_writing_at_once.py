"""Several processes that generate at once: locks, and who waits."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import faults
from command_line import ROOT, Command
from written_project import FAST, SPEC, change_template, forked, hidden

from tilewright_generator.exclusive import exclusive


@forked
def test_while_one_generates_another_waits_and_reads_its_specs_afterwards(
    project: Path, tilewright: Command
) -> None:
    """The first is held before a step in the midst of its files. The second must not write, nor go by specs
    that are older than what the first has written."""
    tilewright("generate")
    change_template(project)
    generated = project / "generated"
    go, told = os.pipe()
    here, arrived = os.pipe()

    def hold() -> None:
        os.write(arrived, b"!")
        os.read(go, 1)

    first = faults.Forked(["generate"], generated, 10, hold)
    os.read(here, 1)
    second = subprocess.Popen(
        [sys.executable, "-c", _RUN, "generate"],
        stderr=subprocess.PIPE,
        text=True,
        cwd=project,
        env={**os.environ, "PYTHONPATH": _PATH},
    )
    assert second.stderr is not None
    waits = second.stderr.readline()
    (project / "specs/small.yaml").write_text(SPEC.replace("fast: [false, true]", "fast: false"))
    os.write(told, b"!")
    code, text = first.end()
    assert code == 0, text
    _, said = second.communicate()
    assert second.returncode == 0, said
    assert waits == "waiting for another `tilewright generate` that writes generated\n"
    assert not (generated / FAST).exists()
    assert tilewright("check").code == 0
    assert hidden(generated) == []
    for descriptor in (go, told, here, arrived):
        os.close(descriptor)


def test_who_has_waited_holds_a_lock_that_others_see(tmp_path: Path) -> None:
    """And not the file that the one before has removed, beside which others could make another."""
    folder = tmp_path / "generated"
    waiting = threading.Event()
    seen: list[bool] = []

    def second() -> None:
        with exclusive(folder, waiting.set):
            others: list[int] = []
            with suppress(TimeoutError), exclusive(folder, refuse_to_wait):
                others.append(1)
            seen.append(not others)

    with exclusive(folder, lambda: None):
        thread = threading.Thread(target=second)
        thread.start()
        waiting.wait()
    thread.join()
    assert seen == [True]
    assert not folder.exists()


def refuse_to_wait() -> None:
    raise TimeoutError


_PATH = os.pathsep.join([f"{ROOT}/generator", f"{ROOT}/runtime", f"{ROOT}/tests/generator"])
_RUN = "import tiny_family; from tilewright_generator.cli import main; main()"


def test_many_generate_modules_at_once_and_every_manifest_is_whole(
    project: Path, tilewright: Command
) -> None:
    for module in range(3):
        spec = SPEC.replace("[64x64x64, 128x128x64]", f"128x{8 + module}x64")
        (project / f"specs/m{module}.yaml").write_text(spec)
    (project / "specs/small.yaml").unlink()
    running = [
        subprocess.Popen(
            [sys.executable, "-c", _RUN, "generate", f"m{number % 3}"],
            stdout=subprocess.DEVNULL,
            cwd=project,
            env={**os.environ, "PYTHONPATH": _PATH},
        )
        for number in range(6)
    ]
    assert [process.wait() for process in running] == [0] * 6
    assert tilewright("generate").out == "nothing to do: 6 kernels in 3 modules are as the specs say\n"
    assert hidden(project / "generated") == []


def test_a_signal_that_is_ignored_as_under_nohup_stays_ignored(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with exclusive(tmp_path, lambda: None):
            held = signal.getsignal(signal.SIGHUP)
        assert (held, signal.getsignal(signal.SIGHUP)) == (signal.SIG_IGN, signal.SIG_IGN)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_lock_and_a_file_that_a_killed_run_left_are_removed(project: Path, tilewright: Command) -> None:
    generated = project / "generated"
    generated.mkdir()
    kept = [".keep", ".tilewright-2-notes", ".tilewright-notes"]
    for name in (".tilewright-4321", ".tilewright.lock", *kept):
        (generated / name).write_text("")
    assert tilewright("generate").code == 0
    assert hidden(generated) == kept
