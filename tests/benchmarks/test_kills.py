"""The programs that kill commands do kill them, and notice what is not recovered."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest

from tilewright.compile.nvcc.toolchain import find_toolchain
from tilewright.errors import ToolchainError

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def paths(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([f"{ROOT}/generator", f"{ROOT}/runtime"]))


@pytest.fixture
def toolchain() -> None:
    try:
        find_toolchain()
    except ToolchainError as error:
        pytest.skip(f"no toolchain: {error}")


def test_a_command_is_killed_when_it_is_ready_with_what_it_has_started(tmp_path: Path) -> None:
    """`kill` reads what they print to the end, and so answers when the sleeping child has ended too."""
    from benchmarks.robustness.kills.common import kill  # noqa: PLC0415

    ready = tmp_path / "ready"
    killed = kill(["sh", "-c", f"echo started; sleep 100000 & touch {ready}; wait"], 0, ready=ready.exists)
    assert (killed.exit_code, killed.output) == (None, "started\n")
    assert kill(["sh", "-c", "exit 3"], 0, ready=lambda: False).exit_code == 3


def test_killed_generates_are_recovered_and_one_that_is_not_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from benchmarks.robustness.kills import generate  # noqa: PLC0415

    monkeypatch.setattr(generate, "TILES", generate.TILES[:4])
    actual = generate.hammer(tmp_path / "killed", kills=1, seed=1)
    assert actual["ok"], actual["rows"]
    project = generate.Project(tmp_path / "edited", random.Random(1))
    project.generate(project.out)
    next(project.out.glob("*/table.json")).write_text("{}\n")
    row = generate.recover(project, tmp_path / "scratch")
    assert (row["exit_code"], row["equal"]) == (1, False)
    assert "edited by hand" in "\n".join(row["messages"])


def test_killed_merges_are_recovered_and_what_is_lost_is_noticed(tmp_path: Path) -> None:
    from benchmarks.robustness.kills import merge  # noqa: PLC0415

    actual = merge.hammer(tmp_path / "killed", kills=2, seed=1, sources=4)
    assert actual["ok"], actual["rows"]
    assert actual["changed"] >= 1, "the second is killed after the first write"
    some = merge.Merge(tmp_path / "some", random.Random(2), sources=2)
    some.draw()
    before, scratch = tmp_path / "before", tmp_path / "scratch"
    shutil.copytree(some.out, before)
    assert some.run(some.out)[0] == 0
    written = next(some.out.glob("*/*.json"))
    (written.parent / f".{written.name}.1").touch()  # a draft, as a killed one leaves
    assert merge.is_well({"loads": True, "lost": 0} | merge.recover(some, before, scratch))
    (written.parent / "x").touch()
    assert not merge.recover(some, before, scratch)["equal"]
    had = merge.problems(some.out)
    lines = written.read_text().splitlines(keepends=True)
    written.write_text("".join(line for line in lines if '"tactic"' not in line or line.rstrip()[-1] != ","))
    assert merge.problems(some.out) < had


@pytest.mark.compile
@pytest.mark.usefixtures("toolchain")
def test_killed_builds_are_recovered_and_what_is_broken_is_noticed(tmp_path: Path) -> None:
    from benchmarks.robustness.kills import build  # noqa: PLC0415

    actual = build.hammer(tmp_path, kills=2, seed=1)
    assert actual["ok"], actual["rows"]
    project, cache = tmp_path / "clean", tmp_path / "cache"
    assert build.built_files(cache)
    assert len(build.built_files(project)) == 1 + len(build.KERNELS)
    entry = next(path for path in (cache / "objects").glob("*/kernel.o"))
    entry.write_bytes(entry.read_bytes()[:-1])
    assert len(build.broken(cache)) == 1


@pytest.mark.compile
@pytest.mark.usefixtures("toolchain")
def test_killed_prunes_are_recovered(tmp_path: Path) -> None:
    from benchmarks.robustness.kills import prune  # noqa: PLC0415

    actual = prune.hammer(tmp_path, kills=2, seed=1, count=40)
    assert actual["ok"], actual["rows"]
    assert actual["half_done"] >= 1, "the second is killed after the first removal"
