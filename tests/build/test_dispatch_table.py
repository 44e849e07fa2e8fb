"""Reads table.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tilewright.base import reading
from tilewright.declarations.table import Table, find_tables
from tilewright.errors import TableError

HEAD = {"format": 1, "module": "m", "family": "tiny", "spec": "specs/m.yaml"}


def row(name: str, **changed: Any) -> dict[str, Any]:
    config = {"a": "bf16", "tile": [128, 256, 64], "schedule": "cooperative", "pdl": True}
    facts = {"stages": 4, "smem_bytes": 213248, "threads": 384, "alignment": {"a": 8, "b": 8}}
    shared = {"arch": "sm_90a", "defines": ["X=1"], "instructions": ["HGMMA"]}
    return {
        "name": name,
        "source": f"{name}.cu",
        "sha256": "0" * 64,
        **shared,
        "config": config,
        "facts": facts,
    } | changed


def write(path: Path, rows: list[dict[str, Any]], **head: Any) -> Path:
    """As the generator does."""
    opening = json.dumps(HEAD | head)[:-1]
    path.write_text(f'{opening}, "kernels": [\n' + ",\n".join(map(json.dumps, rows)) + "\n]}\n")
    return path


def test_a_row_may_say_the_cutlass_release_it_needs(tmp_path: Path) -> None:
    table = Table.read(write(tmp_path / "table.json", [row("a"), row("b", cutlass="4.5")]))
    assert [table[name].cutlass for name in table] == ["", "4.5"]


def test_rows_become_records_in_their_order(tmp_path: Path) -> None:
    table = Table.read(write(tmp_path / "table.json", [row("b"), row("a")]))
    assert (table.module, table.family, table.spec) == ("m", "tiny", "specs/m.yaml")
    assert list(table) == ["b", "a"]
    assert len(table) == 2
    record = table["a"]
    assert record.config["tile"] == [128, 256, 64]
    assert record.instructions == ("HGMMA",)
    assert table["a"] is record
    assert table.source(record) == tmp_path / "a.cu"


def test_any_layout_of_json_is_read(tmp_path: Path) -> None:
    path = tmp_path / "table.json"
    for indent in (None, 2):
        path.write_text(json.dumps(HEAD | {"kernels": [row("a"), row("b")]}, indent=indent))
        assert [record.name for record in Table.read(path).values()] == ["a", "b"]
    assert list(Table.read(write(path, []))) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not a dispatch table"),
        ("{", "not a dispatch table"),
        ("[]", "not a dispatch table"),
        ('{"kernels": []}', "no 'format'"),
        ('{"format": 2, "kernels": []}', "table format 2, this tilewright reads 1"),
        (json.dumps(HEAD | {"kernels": [row("a"), row("a")]}), "two kernels are named a"),
    ],
)
def test_what_is_no_table_is_said(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "table.json"
    path.write_text(text)
    with pytest.raises(TableError, match=said) as caught:
        Table.read(path)
    assert str(path) in str(caught.value)


def test_a_missing_table_and_a_row_that_lacks_a_field(tmp_path: Path) -> None:
    with pytest.raises(TableError, match="tilewright generate"):
        Table.read(tmp_path / "table.json")
    broken = row("a")
    del broken["sha256"]
    table = Table.read(write(tmp_path / "table.json", [broken, row("b")]))
    assert table["b"].name == "b"
    with pytest.raises(TableError, match="the row of a: there is no 'sha256'"):
        table["a"]


def test_a_row_is_parsed_when_it_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading 20,000 rows takes 0.07 s; parsing them would take more than 0.3 s."""
    path = write(tmp_path / "table.json", [row(f"kernel_{index}") for index in range(200)])
    loads, texts = reading.loads, []
    monkeypatch.setattr(reading, "loads", lambda path, text: texts.append(text) or loads(path, text))
    table = Table.read(path)
    assert len(table) == 200
    assert not [text for text in texts if "kernel_" in text]
    assert table["kernel_199"].facts["stages"] == 4
    (parsed,) = [text for text in texts if "kernel_" in text]
    assert json.loads(parsed)["name"] == "kernel_199"


def test_tables_are_found_by_folder(tmp_path: Path) -> None:
    for name in ("b", "a"):
        (tmp_path / name).mkdir()
        write(tmp_path / name / "table.json", [])
    (tmp_path / "notes.txt").write_text("not a module")
    assert [path.parent.name for path in find_tables(tmp_path)] == ["a", "b"]
