"""The site is built strictly, and holds what it is for: pages, ops, kernels, search; it fetches nothing."""

from __future__ import annotations

import importlib
import json
import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tilewright.declarations import catalog
from tilewright_generator import status
from tilewright_generator.project import Project

ROOT = Path(__file__).resolve().parents[2]
MISSING = [name for name in ("mkdocs", "material", "mkdocstrings") if find_spec(name) is None]
pytestmark = pytest.mark.skipif(
    bool(MISSING),
    reason=f"{', '.join(MISSING)}: not installed (pip install '.[docs]'; `make docs` builds the site)",
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    paths = os.pathsep.join(str(ROOT / name) for name in ("runtime", "generator"))
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": paths, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def text(site: Path, page: str) -> str:
    return (site / page).read_text(encoding="utf-8")


def test_every_page_is_there_and_leads_on(site: Path) -> None:
    pages = [*(ROOT / "docs").glob("*.md"), *(ROOT / "benchmarks/results").glob("[a-z]*.md")]
    assert len(pages) > 50
    missing = [page for page in pages if not (site / page.relative_to(ROOT)).with_suffix(".html").is_file()]
    assert not missing
    front = text(site, "index.html")
    assert all(f'href="docs/{page.stem}.html"' in front for page in (ROOT / "docs").glob("*.md"))


def test_a_link_to_a_file_leads_to_a_page_that_shows_it(site: Path) -> None:
    page = text(site, "docs/adding_a_family.html")
    (link,) = set(re.findall(r'href="([^"]+hc_prenorm/interface\.py\.html)"', page))
    assert "INTERFACE" in (site / "docs" / link).resolve().read_text(encoding="utf-8")


def test_every_op_is_in_the_reference(site: Path) -> None:
    page = text(site, "api/ops.html")
    ops = {op for package in catalog.packages().values() for op in importlib.import_module(package).OPS}
    assert len(ops) > 20
    assert not [op for op in ops if not re.search(rf'id="[\w.]+\.op\.{op}"', page)]
    gemm = page[page.index('id="tilewright.families.gemm.op.gemm"') :]
    assert "fast_accum" in gemm[: gemm.index("Returns:")]


def test_every_kernel_is_on_the_page_and_in_the_report(site: Path) -> None:
    names = {verdict.name for _, several in status.verdicts(Project.find(ROOT)) for verdict in several}
    for page in ("kernels.html", "report.html"):
        assert names <= set(re.findall(r"<td>(\w+)</td>", text(site, page)))


def test_search_finds_words_of_pages_and_of_ops(site: Path) -> None:
    index = json.loads(text(site, "search/search_index.json"))
    places = {entry["location"] for entry in index["docs"] if "batch_invariant" in entry["text"]}
    assert any(place.startswith("docs/use.html") for place in places)
    assert any(
        entry["location"].startswith("api/ops.html#tilewright.families.gemm") for entry in index["docs"]
    )
    assert not [entry for entry in index["docs"] if entry["location"].startswith(("kernels", "source/"))]


BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@pytest.mark.skipif(BROWSER is None, reason="no Chromium to look at the site with")
def test_the_search_works_where_the_site_is_opened_as_files(site: Path) -> None:
    """Browsers refuse workers to such pages: docs/site/iframe-worker.js."""
    assert BROWSER is not None
    page = f"{(site / 'index.html').as_uri()}?q=batch_invariant"
    options = ("--headless=new", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=20000", "--dump-dom")
    shown = subprocess.run([BROWSER, *options, page], capture_output=True, text=True, check=True).stdout
    (count,) = re.findall(r"(\d+) matching documents", shown)
    assert int(count) > 3
    assert "api/context.html?h=batch_invariant#tilewright.context.batch_invariant" in shown


def test_pages_fetch_nothing_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        loaded = re.findall(
            r"<(?:script|link|img|iframe)[^>]*(?:src|href)=\"?([^\">]+)", page.read_text(encoding="utf-8")
        )
        assert not [address for address in loaded if re.match(r"(https?:)?//", address)], page
