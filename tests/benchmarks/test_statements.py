"""The statements of pull requests: each row's command runs and says what the row says, or its test is there,
and the page is what the data yield."""

from __future__ import annotations

import ast
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from benchmarks.statements import __main__ as pages
from benchmarks.statements.data import Row, read, read_all

from tilewright_generator import cli

ROOT = Path(__file__).parents[2]
ALL = read_all()
COUNTS = {
    "deepgemm_324": 28,
    "deepgemm_sm100": 23,
    "flashinfer_2303": 14,
    "flashinfer_2460": 13,
    "flashinfer_2838": 16,
    "flashinfer_2888": 14,
}


def rows() -> Iterator[tuple[str, Row]]:
    for statements in ALL:
        for number, row in enumerate(statements.rows, 1):
            yield f"{statements.path.stem}-{number}", row


ROWS = dict(rows())


def test_every_statement_is_there() -> None:
    assert {each.path.stem: len(each.rows) for each in ALL} == COUNTS


@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if row.run])
def test_a_command_shows_it(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    row = ROWS[name]
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "400")  # lines are not wrapped
    assert cli.invoke(shlex.split(row.run)) == row.exit
    printed = capsys.readouterr()
    assert row.says in printed.out + printed.err


@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if row.test])
def test_a_test_or_record_shows_it(name: str) -> None:
    path, _, function = ROWS[name].test.partition("::")
    assert (ROOT / path).exists()
    if function:
        tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
        assert function in {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_the_page_is_what_the_data_yield() -> None:
    assert pages.PAGE.read_text(encoding="utf-8") == pages.page(ALL)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("{statement: x, status: done, test: y}", "row 1: status 'done'; expected met, part, not, none"),
        ("{statement: x, status: met}", "row 1: expected `run` and `says`, or `test`"),
        ("{statement: x, status: met, run: list}", "row 1: expected `run` and `says`, or `test`"),
        ("{statement: x, status: not, test: y}", "row 1: expected a reason for not met"),
        ("{statement: x, status: met, proof: y}", r"row 1: unknown keys \['proof'\]"),
    ],
)
def test_a_row_that_is_none(tmp_path: Path, row: str, message: str) -> None:
    path = tmp_path / "some.yaml"
    path.write_text(f"title: t\nurl: u\nabout: a\nrows:\n  - {row}\n")
    with pytest.raises(ValueError, match=message):
        read(path)
