"""Links of pages lead to files and to headings that are there, and design.md to modules."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted((ROOT / "benchmarks").rglob("*.md")),
]
_CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.MULTILINE | re.DOTALL)
_BLOCK = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} +(.+?)\s*$", re.MULTILINE)


def anchors(text: str) -> set[str]:
    """What GitHub calls a page's headings: in lower case, hyphens for spaces, without other punctuation; of
    several that are alike, the later ones with a number."""
    actual: set[str] = set()
    for heading in _HEADING.findall(_BLOCK.sub("", text)):
        words = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        numbered = (slug, *(f"{slug}-{i}" for i in range(1, 99)))
        actual.add(next(anchor for anchor in numbered if anchor not in actual))
    return actual


def broken(page: Path) -> list[str]:
    text = page.read_text(encoding="utf-8")
    actual = []
    for link in _LINK.findall(_CODE.sub("", text)):
        if re.match(r"[a-z]+:", link):
            continue  # of another site
        path, _, anchor = unquote(link).partition("#")
        target = page.parent / path if path else page
        if not target.exists() or (anchor and anchor not in anchors(target.read_text(encoding="utf-8"))):
            actual.append(link)
    return actual


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    assert not broken(page)


def test_a_link_to_nowhere_is_found(tmp_path: Path) -> None:
    (tmp_path / "there.md").write_text(
        "# A `b_c`, and *more*\n\n```\n# no heading\n```\n## Twice\n## Twice\n"
    )
    links = (
        "[1](there.md#a-b_c-and-more) [2](there.md#twice-1) [3](#here) [4](https://example.com/x) `[5](x)`"
    )
    page = tmp_path / "page.md"
    page.write_text(f"## Here\n{links}\n")
    assert broken(page) == []
    page.write_text("[1](gone.md) [2](there.md#no-heading) [3](#here) [4](there.md#twice-2)\n")
    assert broken(page) == ["gone.md", "there.md#no-heading", "#here", "there.md#twice-2"]


def test_every_page_is_reached_from_the_readme() -> None:
    reached, waiting = set(), [ROOT / "README.md"]
    while waiting:
        page = waiting.pop()
        if page not in reached:
            reached.add(page)
            links = _LINK.findall(_CODE.sub("", page.read_text(encoding="utf-8")))
            paths = ((page.parent / link.partition("#")[0]).resolve() for link in links)
            waiting += [path for path in paths if path.suffix == ".md" and path.is_file()]
    assert not {*PAGES} - reached


def test_modules_of_the_road_are_there() -> None:
    """design.md's tables, each under the line that says of which folder."""
    page = (ROOT / "docs/design.md").read_text(encoding="utf-8")
    tables = re.findall(r"^The (?:generator|runtime), `([^`]+)`:\n\n((?:\|.*\n)+)", page, re.MULTILINE)
    assert len(tables) == 2
    for folder, table in tables:
        for line in table.splitlines()[2:]:
            names = re.findall(r"`([^`]+)`", line.split("|")[2])
            assert names
            missing = [name for name in names if "<" not in name and not (ROOT / folder / name).exists()]
            assert not missing


def test_every_record_is_in_the_index() -> None:
    folder = ROOT / "benchmarks/results"
    index = folder / "README.md"
    linked = {link.rstrip("/") for link in _LINK.findall(index.read_text(encoding="utf-8"))}
    linked |= {link.partition("/")[0] for link in linked}  # a folder by one of its files
    records = {path for path in folder.iterdir() if path != index}
    assert len(records) > 50
    assert not {path.name for path in records} - linked
