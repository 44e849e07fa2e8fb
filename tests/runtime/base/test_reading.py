"""Files of data: which are read at all, and what schemas say of their values."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tilewright.base import reading, yaml_files
from tilewright.base.reading import MOST_DEPTH
from tilewright.base.schema import (
    Anything,
)
from tilewright.base.yaml_files import load_yaml
from tilewright.errors import UnreadableFileError


def refused(path: Path, **limits: int) -> str:
    with pytest.raises(UnreadableFileError) as caught:
        reading.contents(path, **limits)
    assert caught.value.exit_code == 2
    assert str(path) in caught.value.message
    return caught.value.reason


def test_only_regular_files_are_read(path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        reading.contents(path)
    path.symlink_to("nowhere")
    with pytest.raises(FileNotFoundError):
        reading.contents(path)
    path.unlink()
    path.mkdir()
    assert refused(path) == "a folder, no file"
    path.rmdir()
    os.mkfifo(path)
    assert refused(path) == "a pipe, no file"  # nobody writes to it: an ordinary open would wait
    path.unlink()
    (path.parent / "other").write_text("content")
    path.symlink_to("other")
    assert reading.contents(path) == b"content"
    assert refused(path / "below") == "Not a directory"
    assert refused(path, most=6) == "more than 6 bytes"
    assert refused(Path("/dev/zero")) == "a device, no file"
    with pytest.raises(UnreadableFileError, match="no path"):
        reading.contents(Path("a\0b"))


@pytest.mark.skipif(not Path("/proc/self/pagemap").exists(), reason="only Linux has /proc")
@pytest.mark.parametrize("name", ["pagemap", "environ", "status", "maps"])
def test_a_file_that_holds_more_than_its_size_says_is_no_file_of_ours(path: Path, name: str) -> None:
    """Files of /proc say 0 bytes; pagemap never ends."""
    path.symlink_to(f"/proc/self/{name}")
    assert refused(path) == "it holds more than its size says, as files of /proc do"


def test_a_file_is_read_up_to_its_size_in_as_many_parts_as_come(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.write_bytes(b"0123456789")
    read = os.read
    asked: list[int] = []

    def some(descriptor: int, size: int) -> bytes:
        asked.append(size)
        return read(descriptor, min(size, 3))

    monkeypatch.setattr(os, "read", some)
    assert reading.contents(path) == b"0123456789"
    assert asked[0] > 10, "more than there is, so that a file that grows is seen"


def test_nothing_is_read_of_a_file_that_is_too_large(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with path.open("wb") as file:
        file.truncate(5 << 30)
    monkeypatch.setattr(os, "read", lambda *_: pytest.fail("it is read"))
    assert refused(path) == f"more than {reading.MOST_BYTES} bytes"


def test_json_of_more_values_than_there_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MOST_ITEMS", 10)
    with pytest.raises(UnreadableFileError, match="x: more than 10 values"):
        reading.loads("x", "[" + "[]," * 10 + "[]]")
    assert reading.loads("x", "[1,2,[],{}]") == [1, 2, [], {}]


def test_yaml_of_more_values_than_there_may_be(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml_files, "MOST_YAML_EVENTS", 10)
    path.write_text("[1, 2, 3, 4, 5, 6, 7, 8, 9]")
    with pytest.raises(UnreadableFileError, match="line 1, column 26: more than 10 values and brackets"):
        load_yaml(path)


def test_a_socket_is_no_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path.parent)  # a socket's path is 107 bytes at most
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path.name)
        with pytest.raises(UnreadableFileError):
            reading.contents(path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[" * 200_000, "nested too deeply"),
        ('{"a": ' * 200_000, "nested too deeply"),
        ("1" * 5_000, "not JSON that tilewright reads"),
        ("NaN", "NaN is no number"),
        ("-Infinity", "-Infinity is no number"),
        ('{"a": 1,\n}', r"line [12], column [18]: not JSON"),
        ("", "line 1, column 1: not JSON"),
    ],
)
def test_what_is_no_json_of_ours(path: Path, text: str, said: str) -> None:
    path.write_text(text)
    with pytest.raises(UnreadableFileError, match=said):
        reading.load_json(path, Anything())


def test_json_is_utf_8(path: Path) -> None:
    path.write_bytes(b'"\xff"')
    with pytest.raises(UnreadableFileError, match="byte 1: not UTF-8"):
        reading.load_json(path, Anything())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[" * 100_000, "nested more than 32 deep"),
        ("- " * 100_000, "line 1, column 65: nested more than 32 deep"),
        ("a: &a [1]\nb: *a", "line 1, column 4: an alias or a tag|line 2, column 4: an alias or a tag"),
        ("!!timestamp x", "line 1, column 1: an alias or a tag"),
        ("2024-99-99", "not YAML that tilewright reads: month must be"),
        ("9" * 5_000, "not YAML that tilewright reads"),
        ("{[a]: 1}", "not YAML: found unhashable key"),
        ("a: b: c", "not YAML: mapping values are not allowed"),
    ],
)
def test_what_is_no_yaml_of_ours(path: Path, text: str, said: str) -> None:
    path.write_text(text)
    with pytest.raises(UnreadableFileError, match=said):
        load_yaml(path)


def test_yaml_as_deep_as_it_may_be(path: Path) -> None:
    path.write_text("[" * MOST_DEPTH + "]" * MOST_DEPTH)
    assert load_yaml(path) == [json.loads("[" * 31 + "]" * 31)]


def test_yaml_of_many_collections_beside_each_other_is_not_deep(path: Path) -> None:
    many = reading.MOST_DEPTH + 8
    path.write_text("- {m: [1, 2], n: 3}\n" * many)
    assert load_yaml(path) == [{"m": [1, 2], "n": 3}] * many


def test_reading_needs_no_yaml(tmp_path: Path) -> None:
    """Ops read tables and tuned files at their first call."""
    modules = "tilewright.declarations.table, tilewright.selection.tuned_files"
    code = f"import sys, {modules}; sys.exit('yaml' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
