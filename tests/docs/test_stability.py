"""docs/stability.md and the changelog say the numbers of formats that the code has."""

from __future__ import annotations

import re
from pathlib import Path

from tilewright.compile import keys
from tilewright.compile import library as built_library
from tilewright.declarations import table
from tilewright.libraries import library
from tilewright.selection import tuned_files
from tilewright.version import __version__
from tilewright_generator import records

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/stability.md").read_text(encoding="utf-8")
CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def cell(page: str, first: str) -> str:
    (line,) = re.findall(rf"^\| {re.escape(first)}[^|]*\|([^|]*)\|", page, re.MULTILINE)
    return str(line).strip()


def manifest_format() -> int:
    text = (ROOT / "generated/scale_columns/manifest.txt").read_text(encoding="utf-8")
    (number,) = re.findall(r"^# format (\d+):", text, re.MULTILINE)
    return int(number)


def test_numbers_are_those_of_the_code() -> None:
    assert cell(PAGE, "dispatch table") == f"format {table.FORMAT}"
    assert cell(PAGE, "manifest") == f"format {manifest_format()}"
    assert cell(PAGE, "C ABI") == f"version {library.header_abi()}"
    assert (
        cell(PAGE, "tuned files")
        == f"format {tuned_files.FORMAT}, and a header of GPU, driver, CUDA, CUTLASS"
    )
    assert cell(PAGE, "records") == f"format {records.FORMAT}, and a source key a row"
    assert (
        cell(PAGE, "the build cache")
        == f"key format {keys.KEY_FORMAT}, library format {built_library.FORMAT}"
    )


def test_the_changelog_says_the_same() -> None:
    assert f"({__version__})" in CHANGELOG
    assert cell(CHANGELOG, "C ABI") == str(library.header_abi())
    assert cell(CHANGELOG, "tuned files") == str(tuned_files.FORMAT)
    assert {table.FORMAT, manifest_format(), records.FORMAT} == {
        int(cell(CHANGELOG, "tables, manifests, records"))
    }
