"""What is not of a cache of ours is never written to, moved or removed."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from small_modules import Mini

from tilewright.base import paths
from tilewright.compile import marker
from tilewright.compile.building import build
from tilewright.compile.library import libraries
from tilewright.compile.marker import TAG, is_marked
from tilewright.compile.nvcc.toolchain import NvccToolchain
from tilewright.compile.store import Store
from tilewright.errors import CacheRefusedError, StoreError
from tilewright_generator import cli, eviction

FOLDERS = ("tmp", "work", "objects", "logs", "libraries", "libraries/mini", "quarantine", "locks", "digests")
YEAR = 365 * 24 * 3600


def foreign_files(root: Path) -> dict[Path, str]:
    """Puts files and folders of somebody else's, a year old, into and beside a cache's subfolders."""
    made = {}
    for folder in (".", *FOLDERS):
        for name in ("thesis.tex", "chapters/one.tex", "0123456789abcdef/x.tex"):
            path = root / folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{folder}: {name}")
            made[path] = path.read_text()
    stamp = time.time() - YEAR
    for path in root.rglob("*"):
        os.utime(path, (stamp, stamp))
    return made


def files(root: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}


def prune(cache: Path, *arguments: str) -> int:
    return cli.invoke(["cache", "--prune", "--older-than", "0", "--cache", str(cache), *arguments])


@pytest.mark.compile
def test_a_folder_with_other_files_is_no_cache(mini: Mini, tmp_path: Path, toolchain: NvccToolchain) -> None:
    home = tmp_path / "home"
    made = foreign_files(home)
    with pytest.raises(CacheRefusedError) as refused:
        build([mini.add("one").table()], store=Store(home), toolchain=toolchain)
    assert (
        f"{home} is no build cache: it holds 0123456789abcdef and more, and no CACHEDIR.TAG"
        in refused.value.message
    )
    assert f"{home}/tilewright-cache" in str(refused.value.hint)
    assert files(home) == {path: text.encode() for path, text in made.items()}


KEY = "0123456789abcdef" * 2
STEPS: dict[str, Callable[[Store], object]] = {
    "sweep": lambda store: store.sweep(),
    "draft": lambda store: store.draft(KEY),
    "lock": lambda store: store.lock(KEY).__enter__(),
    "quarantine": lambda store: store.quarantine(store.root / "objects" / KEY),
    "remove": lambda store: store.remove(store.root / "objects" / KEY),
}


@pytest.mark.parametrize("step", STEPS)
def test_a_folder_that_cannot_be_marked(tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever comes first says what mends it."""
    (cache := tmp_path / "cache").mkdir()

    def refuse(root: Path) -> None:
        raise PermissionError(13, "Permission denied", str(root / f"{TAG}.0123"))

    monkeypatch.setattr(marker, "mark", refuse)
    with pytest.raises(StoreError, match=f"cache in {cache}: Permission denied: {cache}/") as refused:
        STEPS[step](Store(cache))
    assert refused.value.hint == "Set TILEWRIGHT_CACHE to a folder that can be written."


@pytest.mark.parametrize("step", STEPS)
def test_no_step_changes_such_a_folder(tmp_path: Path, step: str) -> None:
    """Not even what is called as we call it."""
    home = tmp_path / "home"
    foreign_files(home)
    for folder in (home / "tmp" / f"{KEY}.0123456789ab", home / "objects" / KEY):
        folder.mkdir()
        os.utime(folder, (0, 0))
    before = sorted(home.rglob("*"))
    with pytest.raises(CacheRefusedError):
        STEPS[step](Store(home))
    assert sorted(home.rglob("*")) == before


@pytest.mark.parametrize("arguments", [(), ("--dry-run",)])
def test_prune_leaves_a_repository_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    """.git has folders `objects` and `logs`, as a cache has."""
    for command in ("init -q", "commit -q --allow-empty -m one"):
        identity = ("-c", "user.name=a", "-c", "user.email=a@b")
        subprocess.run(["git", *identity, *command.split()], cwd=tmp_path, check=True)
    before = files(tmp_path)
    assert prune(tmp_path / ".git", *arguments) == 2
    assert f"{tmp_path}/.git is no build cache" in capsys.readouterr().err
    assert files(tmp_path) == before
    for words in (
        ["cache", "--cache", str(tmp_path / ".git")],
        ["cache", "--cache", str(tmp_path / ".git/HEAD")],
    ):
        assert cli.invoke(words) == 2


@pytest.mark.compile
def test_in_a_cache_only_what_has_our_names_goes(
    mini: Mini, store: Store, toolchain: NvccToolchain, capsys: pytest.CaptureFixture[str]
) -> None:
    table = mini.add("one", number=1).table()
    build([table], store=store, toolchain=toolchain)
    assert is_marked(store.root)
    made = foreign_files(store.root)
    ours = [
        *(store.root / "tmp" / name for name in (f"{KEY}.0123456789ab", f"library-{KEY}.0123456789ab")),
        *(store.root / "tmp" / "removed-0123456789ab", store.root / "work" / "123-01234567"),
    ]
    for folder in ours:
        folder.mkdir()
        os.utime(folder, (0, 0))
    aside = [store.root / "quarantine" / f"{10**18 + number}-{KEY}" for number in range(30)]
    for folder in (*aside, store.root / "objects" / KEY, store.root / "libraries/mini" / KEY):
        folder.mkdir()
    (store.root / "logs/two.01234567.log").touch()
    library = Path(store.root / "libraries/mini/0123456789abcdef/library.json")
    library.write_text("{")  # a damaged library, if it were ours
    made[library] = "{"

    table = mini.add("one", number=2).table()
    assert build([table], store=store, toolchain=toolchain).ok  # which sweeps
    assert not [folder for folder in ours if folder.exists()]
    store.quarantine(store.root / "objects" / KEY)
    assert sum(folder.exists() for folder in aside) == 19
    for path in store.root.rglob("*"):
        os.utime(path, (0, 0))
    assert prune(store.root) == 0
    left = {path.relative_to(store.root).parts[0] for path in files(store.root).keys() - made.keys()}
    assert left == {TAG, "objects", "libraries", "locks", "digests"}
    assert not list((store.root / "quarantine").glob(f"*-{KEY}"))
    assert not (store.root / "logs/two.01234567.log").exists()
    assert {path: path.read_text() for path in made} == made
    assert len(libraries("mini", store=store)) == 2  # of headers that stand


def test_a_prune_takes_what_one_that_was_killed_has_left(store: Store) -> None:
    """However old it is: nothing leads there any more."""
    left = store.folder("tmp") / "removed-0123456789ab"
    left.mkdir()
    (left / "kernel.o").touch()
    assert cli.invoke(["cache", "--prune", "--cache", str(store.root)]) == 0
    assert not left.exists()


def test_a_link_is_removed_and_not_what_it_leads_to(store: Store, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    foreign_files(precious)
    before = files(precious)
    store.folder("objects")
    (store.root / "objects" / KEY).symlink_to(precious)
    os.utime(store.root / "objects" / KEY, (0, 0), follow_symlinks=False)
    eviction.remove(store, eviction.debris(store, paths.include_dir(), 0))
    assert files(precious) == before
    assert not (store.root / "objects" / KEY).is_symlink()


def test_the_tag_comes_first_and_is_that_of_the_specification(tmp_path: Path) -> None:
    root = tmp_path / "a" / "cache"
    Store(root).folder("objects")
    assert (root / TAG).read_bytes().startswith(b"Signature: 8a477f597d28d172789f06886806bc55\n")
    assert b"tilewright" in (root / TAG).read_bytes()
    assert sorted(path.name for path in root.iterdir()) == [TAG, "objects"]
    (root / "notes.txt").touch()  # once marked, it stays ours
    Store(root).folder("logs")
    (root / TAG).unlink()
    with pytest.raises(CacheRefusedError, match=r"notes\.txt"):
        Store(root).folder("logs")


def test_folders_that_become_caches(tmp_path: Path) -> None:
    """An empty one, a disk of its own, one with tuned files alone, one killed as it was marked, one of a
    tilewright that wrote no tags."""
    for number, names in enumerate(
        [[], ["lost+found"], ["tuned"], [f"{TAG}.0123"], ["objects", "locks", "work"]]
    ):
        root = tmp_path / str(number)
        for name in names:
            (root / name).mkdir(parents=True)
        Store(root).folder("logs")
        assert is_marked(root)


def test_folders_that_do_not(tmp_path: Path) -> None:
    """One that another program has tagged, one whose folders are called as ours by chance, a file."""
    (tmp_path / "tagged").mkdir()
    (tmp_path / "tagged" / TAG).write_text("Signature: 8a477f597d28d172789f06886806bc55\n# cargo\n")
    for folder in ("logs", "tmp"):
        (tmp_path / "service" / folder).mkdir(parents=True)
    (tmp_path / "file").touch()
    for name in ("tagged", "service", "file"):
        before = sorted(tmp_path.rglob("*"))
        with pytest.raises(StoreError, match=r"no build cache|Not a directory"):
            Store(tmp_path / name).folder("objects")
        assert sorted(tmp_path.rglob("*")) == before


def test_a_copy_of_a_cache_is_one(store: Store, tmp_path: Path) -> None:
    store.folder("objects")
    shutil.copytree(store.root, tmp_path / "copy")
    assert is_marked(tmp_path / "copy")
