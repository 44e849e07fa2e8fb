"""The page of `tilewright report` says what the records say, and a browser searches and sorts it."""

from __future__ import annotations

import json
import shutil
import subprocess
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path

import pytest
from command_line import ROOT, Command

from tilewright_generator import cli, families, status
from tilewright_generator.fields import fields_of
from tilewright_generator.project import Project
from tilewright_generator.reports import speeds

FEW = "scale_columns"  # eight kernels
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")


class Tables(HTMLParser):
    """The data tables of a page: by id, rows of cells, the head first. Also what the page fetches."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.rows: dict[str, list[list[str]]] = {}
        self.fetched: list[str] = []
        self._table = ""
        self._in_cell = False
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        named = dict(attributes)
        self.fetched += [value or "" for name, value in attributes if name in ("src", "href", "xlink:href")]
        if tag == "table":
            self._table = named["id"] or ""
            self.rows[self._table] = []
        elif tag == "tr":
            self.rows[self._table].append([])
        elif tag in ("td", "th"):
            self.rows[self._table][-1].append("")
            self._in_cell = True

    def handle_endtag(self, tag: str) -> None:
        self._in_cell = self._in_cell and tag not in ("td", "th")

    def handle_data(self, data: str) -> None:
        if self._in_cell:
            self.rows[self._table][-1][-1] += data

    def records(self, table: str) -> list[dict[str, str]]:
        head, *rows = self.rows[table]
        return [dict(zip(head, row, strict=True)) for row in rows]


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of this repository."""
    path = tmp_path_factory.mktemp("report") / "report.html"
    assert cli.invoke(["report", "--root", str(ROOT), "-o", str(path)]) == 0
    return path


@pytest.fixture(scope="module")
def tables(page: Path) -> Tables:
    return Tables(page.read_text(encoding="utf-8"))


@pytest.fixture
def few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project of one module with its records, and nothing else."""
    results = Path("benchmarks/results")
    for name in (f"specs/{FEW}.yaml", f"generated/{FEW}", "runtime/include", results / f"compile/{FEW}.json"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (shutil.copytree if (ROOT / name).is_dir() else shutil.copy)(ROOT / name, tmp_path / name)
    shutil.copytree(ROOT / results / "gpu", tmp_path / results / "gpu")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_page_is_one_file(page: Path, tables: Tables) -> None:
    assert tables.fetched
    assert all(link.startswith("#") for link in tables.fetched)
    assert "@import" not in page.read_text(encoding="utf-8")


def test_every_kernel_has_a_row_of_what_the_records_say(tables: Tables) -> None:
    rows = {
        row["kernel"]: row
        for table in tables.rows
        if table.startswith("kernels-")
        for row in tables.records(table)
    }
    verdicts = [verdict for _, several in status.verdicts(Project.find(ROOT)) for verdict in several]
    assert len(verdicts) > 1000
    assert rows.keys() == {verdict.name for verdict in verdicts}
    for verdict in verdicts:
        row = rows[verdict.name]
        states = [row[what] for what in status.RECORDED]
        assert states == [verdict.compiled, verdict.run, verdict.hammered]
        numbers = [str(verdict.numbers.get(name, "")) for name in ("registers", "smem_bytes", "code_bytes")]
        assert [row[name] for name in ("registers", "shared memory, bytes", "code, bytes")] == numbers
        assert row["run on"] == verdict.check.get("date", "")
        assert row["hammered on"] == verdict.hammer.get("date", "")
        assert row["hammer's runs"] == str(verdict.hammer.get("runs", ""))


def test_fields_are_columns_where_they_differ(page: Path, tables: Tables) -> None:
    head, *rows = tables.rows["kernels-gemm"]
    first, last = head.index("module") + 1, head.index("compiled")
    varied = head[first:last]
    assert {"tile", "layout", "schedule", "mainloop"} <= set(varied)
    assert all(len({row[place] for row in rows}) > 1 for place in range(first, last))
    section = page.read_text(encoding="utf-8").partition("<summary>gemm <span>")[2].partition("<table")[0]
    said = section.partition("<p>All have ")[2].partition(".</p>")[0]
    common = [words.split()[0] for words in said.split(", ")]
    assert sorted([*varied, *common]) == sorted(fields_of(families.get("gemm")))
    name = "gemm_sm90_bf16_bf16_f32_bf16_tn_128x128x64_lean_coop"
    (row,) = (row for row in tables.records("kernels-gemm") if row["kernel"] == name)
    assert (row["tile"], row["layout"], row["schedule"]) == ("128x128x64", "tn", "cooperative")


def test_kernels_are_counted_by_target_and_module(tables: Tables) -> None:
    modules = dict(status.verdicts(Project.find(ROOT)))
    rows = tables.records("modules")
    assert [row["module"] for row in rows] == sorted(modules)
    assert all(int(row["kernels"]) == len(modules[row["module"]]) for row in rows)
    for what in ("kernels", *status.RECORDED):
        by_target = sum(int(row[what]) for row in tables.records("targets"))
        assert by_target == sum(int(row[what]) for row in rows)


def test_every_series_and_problem_is_on_the_page(tables: Tables) -> None:
    content = speeds.read(ROOT)
    assert content is not None
    rows = tables.records("series")
    assert [row["mean"] for row in rows] == [f"{series.mean:.3f}" for series in content.series]
    problems = [row["speed"] for row in tables.records("problems")]
    assert problems == [f"{speed:.3f}" for series in content.series for speed in series.speeds]


def test_every_tuned_file_has_a_roofline(page: Path, tables: Tables) -> None:
    files = sorted((ROOT / "tuned/nvidia_h200").glob("*.json"))
    drawn = [table for table in tables.rows if table.startswith("tuned-")]
    assert len(drawn) == len(files)
    text = page.read_text(encoding="utf-8")
    for path in files:
        assert f"{path.stem} on NVIDIA H200, tuned" in text
    if find_spec("matplotlib"):
        assert text.count("<figure>") == 1 + len(files)
    else:
        assert text.count("matplotlib, which is not installed") == len(files)
    wins = sum(
        int(row["tuned problems"])
        for table in tables.rows
        if table.startswith("kernels-")
        for row in tables.records(table)
    )
    assert wins == sum(len(tables.rows[table]) - 1 for table in drawn)


def test_a_stale_record_is_named(few: Path, tilewright: Command) -> None:
    assert tilewright("report", "-o", "before.html").code == 0
    path = few / f"benchmarks/results/compile/{FEW}.json"
    record = json.loads(path.read_text())
    stale, *others = (row["name"] for row in record["kernels"])
    record["kernels"][0]["source_key"] = "0" * 32
    path.write_text(json.dumps(record))
    assert tilewright("report", "-o", "after.html").code == 0
    before, after = ((few / name).read_text() for name in ("before.html", "after.html"))
    assert "with a stale record" not in before
    assert f"1 kernel with a stale record</summary><p>{stale}</p>" in after
    rows = {row["kernel"]: row["compiled"] for row in Tables(after).records(f"kernels-{FEW}")}
    assert rows == {stale: "stale", **dict.fromkeys(others, "current")}


def test_a_project_without_records_says_so(few: Path, tilewright: Command) -> None:
    shutil.rmtree(few / "benchmarks")
    assert tilewright("report", "-o", "x.html").code == 0
    text = (few / "x.html").read_text()
    assert "This project has no records of speeds beside a peer" in text
    assert "There are no tuned files beside these kernels." in text
    assert {row["compiled"] for row in Tables(text).records(f"kernels-{FEW}")} == {"never"}


def test_texts_of_a_project_are_text(few: Path, tilewright: Command) -> None:
    """No content of a record reaches the page as markup."""
    results = few / "benchmarks/results"
    (results / "speeds.yaml").write_text(
        "title: <b>x</b>\nsubtitle: s\nseries:\n"
        "  - {products: '<script>x', type: BF16, peer: '\"&', record: some, ratio: ratio}\n"
    )
    (results / "some.md").write_text("| m | us | ratio |\n|---|---|---|\n| <i>16</i> | 1 | 2.0 |\n")
    assert tilewright("report", "-o", "x.html").code == 0
    text = (few / "x.html").read_text()
    assert not [markup for markup in ("<b>x", "<script>x", "<i>16") if markup in text]
    assert Tables(text).records("problems")[0]["products"] == "<script>x"


# What a reader does: types words, then clicks on the head of a column twice.
READER = """
<script>
search.value = "%(words)s";
search.dispatchEvent(new Event("input"));
const table = document.getElementById("%(table)s");
const heads = [...table.tHead.rows[0].cells];
const head = heads.find(cell => cell.textContent === "%(column)s");
const shown = () => [...table.tBodies[0].rows].filter(row => !row.hidden)
  .map(row => [row.cells[0].textContent, row.cells[heads.indexOf(head)].textContent]);
const seen = {unsorted: shown(), open: table.closest("details").open};
head.firstElementChild.click();
seen.up = shown();
head.firstElementChild.click();
seen.down = shown();
seen.matches = document.getElementById("matches").textContent;
seen.others = [...document.querySelectorAll("details.group")].filter(group => group.open).length;
document.body.replaceChildren();
document.title = JSON.stringify(seen);
</script>
"""


def test_a_browser_searches_and_sorts(page: Path, tables: Tables, tmp_path: Path) -> None:
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        pytest.skip(f"none of {', '.join(BROWSERS)} is installed")
    read = tmp_path / "read.html"
    script = READER % {"words": "LEAN_COOP 64x16x", "table": "kernels-gemm", "column": "code, bytes"}
    read.write_text(page.read_text(encoding="utf-8").replace("</body>", f"{script}</body>"), encoding="utf-8")
    options = ["--headless", "--no-sandbox", f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom"]
    done = subprocess.run([browser, *options, read.as_uri()], capture_output=True, text=True, check=True)
    seen = json.loads(done.stdout.partition("<title>")[2].partition("</title>")[0])
    expected = [
        [row["kernel"], row["code, bytes"]]
        for row in tables.records("kernels-gemm")
        if "lean_coop" in row["kernel"] and "64x16x" in row["kernel"]
    ]
    assert len(expected) > 10
    assert seen["unsorted"] == expected
    assert seen["open"]
    numbers = sorted(int(size) for _, size in expected)
    assert [int(size) for _, size in seen["up"]] == numbers
    assert [int(size) for _, size in seen["down"]] == numbers[::-1]
    matches = sum(
        all(word in " ".join(row).lower() for word in ("lean_coop", "64x16x"))
        for rows in tables.rows.values()
        for row in rows[1:]
    )
    assert seen["matches"] == f"{matches:,} rows"
    assert seen["others"] == sum(
        any("lean_coop" in " ".join(row) and "64x16x" in " ".join(row) for row in rows[1:])
        for table, rows in tables.rows.items()
        if table not in ("targets", "modules", "series")
    )
