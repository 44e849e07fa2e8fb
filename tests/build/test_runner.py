"""What becomes of jobs when it is not the compiler that fails."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from small_modules import Mini

from tilewright.base import paths
from tilewright.compile import runner
from tilewright.compile.nvcc.toolchain import NvccToolchain
from tilewright.compile.planning import Planner
from tilewright.compile.progress import Progress
from tilewright.compile.store import Store
from tilewright.compile.unit import Job
from tilewright.errors import ToolchainError


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
