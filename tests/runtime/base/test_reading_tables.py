"""What schemas take and refuse of tables, rows and tuned files."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tilewright.base.mismatch import Mismatch
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
from tilewright.declarations import catalog
from tilewright.declarations.table import Table, find_tables
from tilewright.errors import TableError
from tilewright.selection import tuned_files
from tilewright.selection.families import family_of
from tilewright_generator import records

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


ROOT = Path(__file__).resolve().parents[3]
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


def test_every_shipped_row_and_tuned_file_is_read() -> None:
    for path in find_tables(ROOT / "generated"):
        assert all(record.name for record in Table.read(path).values())
    for path in (ROOT / "tuned").glob("*/*.json"):
        file = tuned_files.read(path)
        assert all(
            tuned_files.whole_kind(family_of(file.family), section.kind) for section in file.sections
        ), path
    for path in (ROOT / "benchmarks/results").glob("*/*.json"):
        assert records.read(path)["kernels"]
