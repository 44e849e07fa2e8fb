"""Files of data: which are read at all, and what schemas say of their values."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tilewright.base import reading, yaml_files
from tilewright.base.mismatch import Mismatch
from tilewright.base.reading import MOST_DEPTH
from tilewright.base.schema import (
    Anything,
    Array,
    Boolean,
    Enum,
    Integer,
    Map,
    Null,
    Number,
    Object,
    Pattern,
    Schema,
    String,
    Union,
)
from tilewright.base.yaml_files import load_yaml
from tilewright.declarations import catalog
from tilewright.declarations.table import Table, find_tables
from tilewright.errors import TableError, UnreadableFileError
from tilewright.selection import tuned_files
from tilewright.selection.families import family_of
from tilewright_generator import records

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "file"


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


ROW = Object({"name": String("[a-z]+", "a name"), "tile": Array(Integer(1, 256), 3)}, {"note": Null()})


@pytest.mark.parametrize(
    ("schema", "value", "said"),
    [
        (String(), 3, "expected text, got 3"),
        (String(), "\ud800", r'expected text, got "\ud800"'),
        (String("a+", "a's"), "aab", 'expected a\'s, got "aab"'),
        (String(r"\w+", "a word"), "ä", r'expected a word, got "\u00e4"'),
        (String(), "x" * 65_537, f'expected text, got "{"x" * 56}...'),
        (Pattern(), "(", 'expected a regular expression, got "("'),
        (Integer(), True, "expected a whole number, 0 or more, got true"),
        (Integer(), -1, "expected a whole number, 0 or more, got -1"),
        (Integer(), 2**63, "expected a whole number, 0 or more, got a number of more than 64 bits"),
        (Integer(1, 4), 5, "expected a whole number from 1 to 4, got 5"),
        (Integer(1, 4), 1.0, "expected a whole number from 1 to 4, got 1.0"),
        (Number(), -0.5, "expected a number, 0 or more, got -0.5"),
        (Number(), float("inf"), "expected a number, 0 or more, got Infinity"),
        (Number(), False, "expected a number, 0 or more, got false"),
        (Number(positive=True), 0, "expected a number above 0, got 0"),
        (Boolean(), 1, "expected true or false, got 1"),
        (Enum(("a", "b")), "c", 'expected one of a, b, got "c"'),
        (Enum(("a", "b")), ["a"], "expected one of a, b, got a list"),
        (Array(Integer()), {"a": 1}, "expected a list, got a mapping"),
        (Array(Integer(), 2), [1], "expected a list of 2, got a list"),
        (Array(Integer()), [1, None], "[1]: expected a whole number, 0 or more, got null"),
        (Map(Integer()), {"a": "b"}, 'a: expected a whole number, 0 or more, got "b"'),
        (Map(Integer()), [], "expected a mapping, got a list"),
        (Union((Null(), Integer())), "a", 'expected null or a whole number, 0 or more, got "a"'),
        (Anything(), json.loads("[" * 9 + "]" * 9), "expected a value nested 8 deep at most, got a list"),
        (Anything(), {"a": 10**30}, ", got a number of more than 64 bits"),
        (ROW, None, "expected a mapping, got null"),
        (ROW, {"name": "a"}, "there is no 'tile'"),
        (ROW, {"name": "a", "tile": [1, 2, 3], "x": 1}, '"x" is none of its fields: name, tile, note'),
        (
            Map(ROW),
            {"r": {"name": "a", "tile": [1, 2, 0]}},
            "r.tile[2]: expected a whole number from 1 to 256",
        ),
    ],
)
def test_what_schemas_refuse(schema: Schema, value: Any, said: str) -> None:
    with pytest.raises(Mismatch) as caught:
        schema.check(value)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (String(), "ä"),
        (Integer(), 2**63 - 1),
        (Number(), 0),
        (Number(positive=True), 1e-9),
        (Union((Null(), Integer())), None),
        (Anything(), json.loads("[" * 8 + "]" * 8)),
        (ROW, {"tile": [1, 256, 3], "name": "a", "note": None}),
        (Enum(("auto", 1)), 1),
        (Object({}, others=Integer()), {"a": 1}),
    ],
)
def test_what_schemas_take(schema: Schema, value: Any) -> None:
    schema.check(value)


FAMILIES = {
    "gemm": "sm90_gemm_lean",
    "blockscaled_gemm": "sm100_nvfp4_gemm",
    "quantize": "quantize",
}


@pytest.mark.parametrize("family", FAMILIES)
def test_every_field_that_the_runtime_asks_a_row_for_is_checked(family: str, tmp_path: Path) -> None:
    """Each field that a family's schema names, gone or of another type: an error that names it."""
    text = (ROOT / "generated" / FAMILIES[family] / "table.json").read_text()
    head, first = text.split("\n")[:2]
    row = json.loads(first.rstrip(","))
    parts = catalog.row_of(family)
    assert parts is not None
    for part, schema in (("config", parts.config), ("facts", parts.facts)):
        assert isinstance(schema, Object)
        for name in row[part]:
            absent = [{}] * (name in schema.required)
            for values in (*absent, {name: None}, {name: {"a": [{}]}}):
                spoilt = {key: value for key, value in row[part].items() if key != name} | values
                path = tmp_path / "table.json"
                path.write_text(f"{head}\n{json.dumps(row | {part: spoilt})}\n]}}\n")
                table = Table.read(path)
                with pytest.raises(TableError, match=rf"{part}.*{name}"):
                    table[row["name"]]


def test_a_row_that_lacks_a_field_has_its_default(tmp_path: Path) -> None:
    """As an older version wrote it: a new field's default keeps what kernels were."""
    path = ROOT / "generated" / "sm90_gemm_lean" / "table.json"
    head, first = path.read_text().split("\n")[:2]
    row = json.loads(first.rstrip(","))
    whole = Table.read(path)[row["name"]]
    row["config"] = {name: row["config"][name] for name in ("arch", "a", "b", "d", "tile")}
    older = tmp_path / "table.json"
    older.write_text(f"{head}\n{json.dumps(row)}\n]}}\n")
    config = Table.read(older)[row["name"]].config
    assert config.keys() == whole.config.keys()
    assert (config["mainloop"], config["cluster"], config["swap_ab"]) == ("cutlass", [1, 1], False)


def test_a_row_under_the_name_of_another(tmp_path: Path) -> None:
    path = tmp_path / "table.json"
    head = {"format": 1, "module": "m", "family": "tiny"}
    row = '{"name": "a", "name": "b", "source": "a.cu", "sha256": "", "arch": "sm_90a", "defines": [],'
    row += ' "instructions": [], "config": {}, "facts": {}}'
    path.write_text(f'{json.dumps(head)[:-1]}, "kernels": [\n{row}\n]}}\n')
    with pytest.raises(TableError, match="the row of a is of b"):
        Table.read(path)["a"]


@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir, lambda path: path.symlink_to("nowhere")])
def test_a_table_that_is_no_file(make: Any, tmp_path: Path) -> None:
    make(tmp_path / "table.json")
    with pytest.raises(TableError, match=r"table\.json: (not a dispatch table|no such file)"):
        Table.read(tmp_path / "table.json")


def test_reading_needs_no_yaml(tmp_path: Path) -> None:
    """Ops read tables and tuned files at their first call."""
    modules = "tilewright.declarations.table, tilewright.selection.tuned_files"
    code = f"import sys, {modules}; sys.exit('yaml' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_every_shipped_row_and_tuned_file_is_read() -> None:
    for path in find_tables(ROOT / "generated"):
        assert all(record.name for record in Table.read(path).values())
    for path in (ROOT / "tuned").glob("*/*.json"):
        file = tuned_files.read(path)
        assert all(tuned_files.whole_kind(family_of(file.family), one.kind) for one in file.sections), path
    for path in (ROOT / "benchmarks/results").glob("*/*.json"):
        assert records.read(path)["kernels"]
