"""A cache that somebody else may have put code into is refused, before any of that code runs."""

from __future__ import annotations

import grp
import os
import pwd
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from small_modules import Mini, python

from tilewright.compile import trust
from tilewright.compile.building import build
from tilewright.compile.library import libraries
from tilewright.compile.nvcc.toolchain import NvccToolchain
from tilewright.compile.store import Store
from tilewright.declarations.table import Table
from tilewright.errors import CacheRefusedError
from tilewright.libraries.library import Library, load
from tilewright.libraries.registry import Registry

STRANGER = 54321  # no user and no group
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")


@pytest.fixture
def table(mini: Mini, store: Store, toolchain: NvccToolchain, monkeypatch: pytest.MonkeyPatch) -> Table:
    """A kernel that is built in the cache of this process."""
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(store.root))
    monkeypatch.delenv(trust.VARIABLE, raising=False)
    made = mini.add("one", number=7).table()
    assert build([made], store=store, toolchain=toolchain).ok
    return made


def parts(store: Store) -> dict[str, Path]:
    """What a library is reached through."""
    (library,) = libraries("mini", store=store)
    return {
        "root": store.root,
        "folder": store.root / "libraries",
        "module": store.root / "libraries/mini",
        "key": library.path.parent,
        "library": library.path,
    }


def to_everybody(path: Path) -> None:
    path.chmod(path.stat().st_mode | stat.S_IWOTH)


def to_a_group(path: Path) -> None:
    os.chown(path, -1, STRANGER)
    path.chmod(path.stat().st_mode | stat.S_IWGRP)


def to_a_stranger(path: Path) -> None:
    os.chown(path, STRANGER, -1)


GIVEN = {
    to_everybody: "everybody may write to {}",
    to_a_group: "its group may write to {}",
    to_a_stranger: f"{{}} belongs to user {STRANGER}",
}


@as_root
@pytest.mark.compile
def test_what_a_library_is_reached_through(
    table: Table, store: Store, toolchain: NvccToolchain, monkeypatch: pytest.MonkeyPatch
) -> None:
    for part, path in parts(store).items():
        before = path.stat()
        for give, said in GIVEN.items():
            give(path)
            load.cache_clear()  # what is loaded stays loaded
            registry = Registry(table.folder.parent)
            with pytest.raises(CacheRefusedError) as caught:
                registry.library(table["one"])
            assert said.format(path) in caught.value.message, (part, give)
            assert f"{trust.VARIABLE}=1" in str(caught.value.hint)
            with monkeypatch.context() as patch:
                patch.setenv(trust.VARIABLE, "1")
                assert registry.library(table["one"])._module.number("one") == 7
            os.chown(path, before.st_uid, before.st_gid)
            path.chmod(stat.S_IMODE(before.st_mode))
    Registry(table.folder.parent).library(table["one"])


@pytest.mark.compile
def test_a_planted_library_does_not_run(
    table: Table, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its hash is right: who can write the one file can write the other."""
    path = parts(store)["library"]
    source = tmp_path / "planted.c"
    source.write_text(
        "#include <stdio.h>\n__attribute__((constructor)) static void run(void) "
        f'{{ fclose(fopen("{tmp_path}/ran", "w")); }}\n'
    )
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", str(path), str(source)], check=True)
    path.with_name("library.json").unlink()
    to_everybody(path.parent)
    with pytest.raises(CacheRefusedError, match="everybody may write"):
        Library(path)
    assert not (tmp_path / "ran").exists()
    monkeypatch.setenv(trust.VARIABLE, "1")
    with pytest.raises(Exception, match="does not load"):
        Library(path)
    assert (tmp_path / "ran").exists()


@as_root
@pytest.mark.compile
def test_objects_that_would_be_linked(table: Table, store: Store, toolchain: NvccToolchain) -> None:
    (plan,) = build([table], store=store, toolchain=toolchain, dry_run=True).units
    entry = store.root / "objects" / plan.key
    for path in (entry, entry / "kernel.o", store.root / "objects"):
        before = path.stat()
        for give, said in GIVEN.items():
            give(path)
            with pytest.raises(CacheRefusedError) as caught:
                build([table], store=store, toolchain=toolchain)
            assert said.format(path) in caught.value.message
            os.chown(path, before.st_uid, before.st_gid)
            path.chmod(stat.S_IMODE(before.st_mode))
    assert build([table], store=store, toolchain=toolchain).ok


def test_a_folder_in_which_others_may_write(tmp_path: Path) -> None:
    """They may put another cache in the place of this one; with the sticky bit, only of their own."""
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    with pytest.raises(CacheRefusedError, match=f"everybody may write to {shared}"):
        Store(shared / "mine" / "cache").folder("objects")
    assert not list(shared.iterdir())
    shared.chmod(0o1777)
    Store(shared / "mine" / "cache").folder("objects")
    (shared / "mine" / "cache").chmod(0o1777)  # within a cache, where anybody may add what is run
    with pytest.raises(CacheRefusedError, match=f"everybody may write to {shared}/mine/cache"):
        Store(shared / "mine" / "cache").folder("objects")
    (shared / "mine" / "cache").chmod(0o755)
    (tmp_path / "link").symlink_to(shared / "mine")
    shared.chmod(0o777)
    with pytest.raises(CacheRefusedError, match=f"everybody may write to {shared}"):
        Store(tmp_path / "link" / "cache").folder("objects")


@as_root
def test_an_empty_folder_of_another_user(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    to_a_stranger(tmp_path / "cache")
    with pytest.raises(CacheRefusedError, match="belongs to user 54321"):
        Store(tmp_path / "cache").folder("objects")
    assert not list((tmp_path / "cache").iterdir())


UMASK = """
import os, sys
os.umask(0o000)
from pathlib import Path
from tilewright.compile.building import build
from tilewright.compile.store import Store
from tilewright.declarations.table import Table
assert build([Table.read(Path(sys.argv[1]))], store=Store(Path(sys.argv[2]))).ok
"""


@pytest.mark.compile
def test_what_a_build_makes_it_takes_under_any_umask(
    mini: Mini, store: Store, toolchain: NvccToolchain, tmp_path: Path
) -> None:
    """Files and folders that hold code; locks hold none."""
    for number in (1, 2):
        line, environment = python(UMASK, mini.add("one", number=number).table().path, store.root)
        subprocess.run(line, env=environment, check=True)
    Library(libraries("mini", store=store)[0].path)
    inside = [*(store.root / "objects").rglob("*"), *(store.root / "libraries").rglob("*")]
    assert len(inside) > 8
    for path in (store.root, *(each for each in store.root.iterdir() if each.is_dir()), *inside):
        assert not path.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH), path


@pytest.fixture
def people(monkeypatch: pytest.MonkeyPatch) -> Callable[..., bool]:
    """Whether group 100 is private to user `ada`, as a machine's files of users and groups say."""

    def private(
        *, group: str = "ada", gid: int = 100, members: tuple[str, ...] = (), other: int = 101
    ) -> bool:
        ada = pwd.struct_passwd(("ada", "x", 1000, gid, "", "/home/ada", "/bin/sh"))
        bob = pwd.struct_passwd(("bob", "x", 1001, other, "", "/home/bob", "/bin/sh"))
        monkeypatch.setattr(pwd, "getpwuid", lambda uid: ada)
        monkeypatch.setattr(pwd, "getpwall", lambda: [ada, bob])
        monkeypatch.setattr(grp, "getgrgid", lambda gid: grp.struct_group((group, "x", gid, list(members))))
        trust._is_private.cache_clear()
        return trust._is_private(100)

    return private


def test_a_group_of_one_is_private(people: Callable[..., bool]) -> None:
    assert people()
    assert people(members=("ada",))
    assert not people(members=("bob",))
    assert not people(other=100)  # bob's primary group, too
    assert not people(gid=102)  # not ada's primary group
    assert not people(group="staff")  # whose members a directory service may not list
    trust._is_private.cache_clear()


def test_a_user_that_no_file_knows_has_no_private_group() -> None:
    trust._is_private.cache_clear()
    assert not trust._is_private(STRANGER)
