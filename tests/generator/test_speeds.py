"""What records say of speeds, and the chart of it: small records of a project of the test's own."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from command_line import Command

from tilewright.errors import UnreadableFileError
from tilewright_generator.reports import speed_chart, speeds
from tilewright_generator.reports.speeds import Problem, Series

LIST = """\
title: Ours beside theirs & others
subtitle: on a test
series:
  - products: dense
    type: BF16
    peer: cuBLAS
    record: some
    ratio: ratio
    where: {kind: "dense*"}
    chart: true
  - {products: groups, type: FP8, peer: DeepGEMM, record: some, ratio: ratio, where: {kind: [masked, ends]}}
"""
RECORD = """\
# A record

| kind | geomean |
|---|---|
| dense | 9.0 |

| kind | m | us | ratio |
|---|---|---|---|
| dense | 16 | 5.0 | 1.25 |
| dense2 | 17 | 5.0 | 0.8 |
| dense | 18 | 5.0 | |
| masked | 19 | 5.0 | 2.0 |
| other | 20 | 5.0 | 3.0 |

| kind | m | us | ratio |
|---|---|---|---|
| dense | 21 | 5.0 | 4.0 |
"""


def series(*values: float, products: str = "dense") -> Series:
    problems = tuple(Problem("", value) for value in values)
    return Series(products, "BF16", "cuBLAS", Path("r.md"), problems, in_chart=True, note="")


@pytest.fixture
def results(project: Path) -> Path:
    folder = project / "benchmarks/results"
    folder.mkdir(parents=True)
    (folder / "speeds.yaml").write_text(LIST)
    (folder / "some.md").write_text(RECORD)
    return folder


def test_series_are_the_rows_of_the_first_table_that_has_the_columns(project: Path, results: Path) -> None:
    content = speeds.read(project)
    assert content is not None
    dense, groups = content.series
    assert dense.problems == (Problem("dense, m 16", 1.25), Problem("dense2, m 17", 0.8))
    assert dense.mean == pytest.approx(1.0)
    assert dense.worst == 0.8
    assert groups.problems == (Problem("masked, m 19", 2.0),)
    assert [dense.in_chart, groups.in_chart] == [True, False]


def test_a_project_without_a_list_has_no_speeds(project: Path) -> None:
    assert speeds.read(project) is None


@pytest.mark.parametrize(
    ("file", "change", "message"),
    [
        ("speeds.yaml", ("record: some", "record: ../some"), "expected a record's name"),
        ("speeds.yaml", ("chart: true", "chat: true"), '"chat" is none of its fields'),
        ("speeds.yaml", ("record: some", "record: gone"), r"gone\.md: no such file"),
        ("speeds.yaml", ("[masked, ends]", "ends"), "a table with kind, ratio: there is none"),
        ("some.md", ("1.25", "fast"), "expected a ratio above 0, got 'fast'"),
        ("some.md", ("1.25", "-1.25"), "expected a ratio above 0, got '-1.25'"),
        ("some.md", ("1.25", "inf"), "expected a ratio above 0, got 'inf'"),
    ],
)
def test_a_wrong_list_or_record_is_named(
    project: Path, results: Path, file: str, change: tuple[str, str], message: str
) -> None:
    path = results / file
    path.write_text(path.read_text().replace(*change))
    with pytest.raises(UnreadableFileError, match=message):
        speeds.read(project)


def dots(svg: str) -> list[tuple[str, float, float]]:
    """Class, x and y of each dot."""
    drawn = ElementTree.fromstring(svg)
    paths = [
        path for path in drawn.iter("{http://www.w3.org/2000/svg}path") if "dots" in path.get("class", "")
    ]
    return [
        (path.get("class", ""), float(x), float(y))
        for path in paths
        for x, y in re.findall(r"M([\d.]+) ([\d.]+)h0", path.get("d", ""))
    ]


def test_every_problem_has_a_dot_of_its_own() -> None:
    values = [0.5, 0.999, *[1.0001] * 40, 1.2, 9.0]
    drawn = dots(speed_chart.chart([series(*values)], "title", "subtitle"))
    assert len(set(drawn)) == len(values)
    assert sum(kind == "dots slow" for kind, _, _ in drawn) == 2
    even = speed_chart._x(1.0)
    assert all((x < even) == (kind == "dots slow") for kind, x, _ in drawn)


def test_no_row_reaches_into_another() -> None:
    rows = [series(*[1.0001] * 60), series(*[1.0001] * 60, products="more")]
    drawn = dots(speed_chart.chart(rows, "title", "subtitle"))
    heights = sorted(y for _, _, y in drawn)
    assert heights[60] - heights[59] > speed_chart._STEP / 2


def test_a_dot_stands_where_its_speed_is() -> None:
    (_, x, _), (_, far, _) = dots(speed_chart.chart([series(1.25, 1.75)], "title", "subtitle"))
    assert x == pytest.approx(speed_chart._x(1.25), abs=speed_chart._STEP)
    assert far == pytest.approx(speed_chart._x(1.75), abs=speed_chart._STEP)


def test_the_command_draws_the_series_that_the_list_marks(
    project: Path, results: Path, tilewright: Command
) -> None:
    done = tilewright("report", "-o", "speed.svg")
    assert (done.code, done.out) == (0, "wrote speed.svg\n")
    text = (project / "speed.svg").read_text()
    assert len(dots(text)) == 2
    assert "Ours beside theirs &amp; others" in text
    assert "groups" not in text
    (results / "some.md").write_text(RECORD.replace("0.8", "0.9"))
    assert tilewright("report", "-o", "speed.svg").code == 0  # an earlier one is replaced
    assert (project / "speed.svg").read_text() != text


def test_a_project_without_series_has_no_chart(project: Path, tilewright: Command) -> None:
    done = tilewright("report", "-o", "speed.svg")
    assert done.code == 2
    path = project / "benchmarks/results/speeds.yaml"
    assert f"there is no {path}, which lists the series of a chart" in done.err
    path.parent.mkdir(parents=True)
    path.write_text("title: Speeds\nsubtitle: of nothing\nseries: []\n")
    assert f"{path} marks no series with `chart`" in tilewright("report", "-o", "speed.svg").err
    assert not (project / "speed.svg").exists()


def test_a_report_of_another_kind_is_refused(project: Path, tilewright: Command) -> None:
    done = tilewright("report", "-o", "speed.pdf")
    assert done.code == 2
    assert "--output speed.pdf: expected a file that ends in" in done.err
