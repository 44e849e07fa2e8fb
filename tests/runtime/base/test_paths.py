"""Paths that variables of the environment name."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from tilewright.base import paths, sets
from tilewright.base.sets import KernelSet


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


def test_a_tilde_is_a_users_home(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE", "~/cache")
    monkeypatch.setenv("TILEWRIGHT_TUNED", "~/a:/b/~c:~nobody-here/d")
    monkeypatch.setenv("TILEWRIGHT_GENERATED", "only:~/modules")
    monkeypatch.setenv("TILEWRIGHT_LIBRARIES", "~/libraries")
    assert paths.cache_dir() == home / "cache"
    assert paths.tuned_dirs() == [home / "a", Path("/b/~c"), Path("~nobody-here/d")]
    assert sets.in_force() == (KernelSet(str(home / "modules"), home / "modules"),)
    assert sets.first_folder() == home / "modules"
    assert sets.library_folders()[0] == home / "libraries"


def test_without_a_variable_nothing_is_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TILEWRIGHT_LIBRARIES", raising=False)
    assert paths.listed("TILEWRIGHT_LIBRARIES") == []
    monkeypatch.setenv("TILEWRIGHT_LIBRARIES", ":/a::")
    assert paths.listed("TILEWRIGHT_LIBRARIES") == ["/a"]


def test_folders_of_tuned_files_that_are_missing_are_logged_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("{}")
    folders = (tmp_path, tmp_path / "file", tmp_path / "none")
    with caplog.at_level(logging.WARNING, "tilewright"):
        paths.warn_of_missing(folders)
        paths.warn_of_missing(folders)
    assert caplog.messages == [
        f"TILEWRIGHT_TUNED: {tmp_path / 'file'} is not a folder; passed over",
        f"TILEWRIGHT_TUNED: {tmp_path / 'none'} does not exist; passed over",
    ]
