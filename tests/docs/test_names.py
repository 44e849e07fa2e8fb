"""Files and folders that pages name are there: whoever moves one finds the pages that name it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tilewright_generator import scaffold

ROOT = Path(__file__).parents[2]
PAGES = [
    *(ROOT / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md")),
    *sorted((ROOT / "docs").glob("*.md")),
    ROOT / "benchmarks/results/README.md",
]
FOLDERS = (
    "benchmarks",
    "docs",
    "examples",
    "generated",
    "generator",
    "runtime",
    "specs",
    "templates",
    "tests",
    "tuned",
)
_BLOCK = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"(?<![\w/.*<>-])[\w./-]+\.(?:py|hpp|h|cc|cu|yaml|json|j2|md|txt|csv\.bz2|toml)(?![\w*])")
_FOLDER = re.compile(r"[\w.-]+(?:/[\w.-]+)*/")
OTHERS = {  # that a reader makes, or another repository has
    "R.json", "A.json", "B.json", ".pre-commit-config.yaml", "test_hyperconnection.py", "quarantine/",
    "specs/NAME.yaml", "generator.py", "manifest.py", "initialize_all.cu",  # of cutlass_library
    "build/site/", "logs/", "tilewright_families/", "tilewright_families/relu_rows/",
    "config.json", "bundle.json", "report.json", "report.md", "measured.json", "measured.md",  # a bundle
    "_params.hpp",  # how names end
} | {  # and the files of the family of adding_a_family.md, F being its folder
    part
    for path in scaffold.files("relu_rows")
    for part in (path, path.replace("tilewright_families/relu_rows/", "F/"), Path(path).name)
}  # fmt: skip


def known() -> set[str]:
    """Every end of a path: `abi.h`, `tilewright/abi.h` and so on; of folders with a slash behind them."""
    actual = {path.name for path in ROOT.iterdir()}
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*"):
            if "__pycache__" not in path.parts:
                parts = path.relative_to(ROOT).parts
                end = "/" * path.is_dir()
                actual |= {"/".join(parts[first:]) + end for first in range(len(parts))}
    return actual | {f"{folder}/" for folder in FOLDERS}


def named(text: str) -> set[str]:
    """Files and folders in backticks, outside of blocks."""
    actual = set()
    for words in re.findall(r"`([^`\n]+)`", _BLOCK.sub("", text)):
        actual |= {name.removeprefix("./") for name in _FILE.findall(words)}
        actual |= {words} if _FOLDER.fullmatch(words) else set()
    return actual


@pytest.fixture(scope="module")
def there() -> set[str]:
    return known()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_what_a_page_names_is_there(page: Path, there: set[str]) -> None:
    assert not named(page.read_text(encoding="utf-8")) - there - OTHERS


def test_a_name_of_nothing_is_found(there: set[str]) -> None:
    text = (
        "`sm90/ptx.hpp`, `sm90/gone.hpp`, `families/gemm/`, `families/gone/`, "
        "`gone-*.py`\n```\n`block/gone.py`\n```\n"
    )
    assert named(text) - there == {"sm90/gone.hpp", "families/gone/"}
