"""`tilewright cache`: what nothing needs can go, and all else stays."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest
from small_modules import Mini

from tilewright.base import paths
from tilewright.compile.building import build
from tilewright.compile.nvcc.toolchain import NvccToolchain
from tilewright.compile.store import Store
from tilewright_generator import cli
from tilewright_generator.eviction import debris

pytestmark = pytest.mark.compile
DAY = 24 * 3600


def age(folder: Path, days: float) -> None:
    """Makes all below a folder, and the folder, so many days old."""
    stamp = time.time() - days * DAY
    for path in (*folder.rglob("*"), folder):
        os.utime(path, (stamp, stamp))


def names(store: Store, folder: str) -> set[str]:
    return {path.name for path in (store.root / folder).glob("*")}


def test_old_objects_and_libraries_of_other_sources_go(
    mini: Mini, store: Store, toolchain: NvccToolchain, capsys: pytest.CaptureFixture[str]
) -> None:
    old = build([mini.add("one", number=1).table()], store=store, toolchain=toolchain)
    damaged = store.root / "libraries/mini" / ("0" * 32)
    damaged.mkdir()
    (store.folder("logs") / "two.01234567.log").write_text("error")
    table = mini.add("one", number=2).add("two", number=3).table()
    new = build([table], store=store, toolchain=toolchain)
    needed = {unit.key for unit in new.units}

    def prune(*arguments: str) -> str:
        assert cli.invoke(["cache", "--cache", str(store.root), *arguments]) == 0
        return capsys.readouterr().out

    assert prune("--prune").endswith("0 items of 0.0 MiB removed\n")  # all is of today
    age(store.root, 40)
    everything = names(store, "objects")
    going = names(store, "libraries/mini"), names(store, "logs")
    assert damaged.name in going[0]
    assert "two.01234567.log" in going[1]
    assert "not needed: 1 x a library that is not in force" in prune()
    assert f"libraries/mini/{damaged.name}: a library that is not in force" in prune("--prune", "--dry-run")
    assert names(store, "objects") == everything
    assert (names(store, "libraries/mini"), names(store, "logs")) == going, "a dry run removes nothing"
    assert prune("--prune", "--older-than", "50").endswith("0 items of 0.0 MiB removed\n")

    # The first library is of the same headers, and so in force: a table may go back to its source.
    assert "removed" in prune("--prune")
    assert names(store, "libraries/mini") == {library.key for library in (*old.libraries, *new.libraries)}
    assert names(store, "logs") == set()
    assert names(store, "objects") == everything

    shutil.rmtree(old.libraries[0].path.parent)
    actual = debris(store, paths.include_dir(), 30 * DAY)
    assert {each.path.name for each in actual} == everything - names_needed(store, needed)
    assert all(each.bytes > 0 for each in actual)
    prune("--prune")
    assert names(store, "objects") == names_needed(store, needed)
    again = build([table], store=store, toolchain=toolchain)
    assert {unit.status for unit in again.units} == {"cached"}
    assert again.libraries == new.libraries


def names_needed(store: Store, kernels: set[str]) -> set[str]:
    """The names of the kernels and of the newest table.cc, which knows two kernels."""
    entries = [store.read_entry(name) for name in names(store, "objects")]
    tables = [each for each in entries if each.report["kind"] == "table"]
    newest = max(tables, key=lambda each: each.object.stat().st_size)
    return kernels | {newest.key}


def test_a_cache_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.invoke(["cache", "--prune", "--cache", str(tmp_path / "none")]) == 0
    assert "0 items of 0.0 MiB removed" in capsys.readouterr().out
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("kind", ["file", "link", "folder"])
def test_what_a_killed_removal_has_left_goes(tmp_path: Path, kind: str) -> None:
    """`remove` first moves what goes to tmp/: an entry's folder, a log, or what somebody has linked there."""
    store = Store(tmp_path / "cache")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "kept").touch()
    moved = store.folder("tmp") / "removed-0123456789ab"
    if kind == "file":
        moved.write_text("error\n")
    elif kind == "link":
        moved.symlink_to(elsewhere)
    else:
        moved.mkdir()
        (moved / "report.json").touch()
    assert cli.invoke(["cache", "--prune", "--cache", str(store.root)]) == 0
    assert names(store, "tmp") == set()
    assert (elsewhere / "kept").exists()
