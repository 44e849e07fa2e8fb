"""`requires:`: which releases of tilewright can read a spec."""

from __future__ import annotations

from pathlib import Path

import pytest
import tiny_family
from command_line import Command


def write(project: Path, requires: str, rest: str = tiny_family.SPEC) -> None:
    (project / "specs/small.yaml").write_text(f"requires: {requires}\n{rest}")


@pytest.mark.parametrize("requires", ['">=0.2"', '">=0.2,<1"', '"~=0.2.0"', '"==0.2.3"', '" > 0.2 "'])
def test_a_release_that_is_asked_for_is_met(
    project: Path, tilewright: Command, monkeypatch: pytest.MonkeyPatch, requires: str
) -> None:
    monkeypatch.setattr("tilewright_generator.requires.__version__", "0.2.3")
    write(project, requires)
    assert tilewright("generate").code == 0


def test_a_later_release_is_met_by_its_development_versions(
    project: Path, tilewright: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tilewright_generator.requires.__version__", "0.3.0.dev1")
    write(project, '">=0.2"')
    assert tilewright("generate").code == 0


@pytest.mark.parametrize("version", ["0.10.0rc1", "0.10.0.dev3", "0.9.1"])
def test_a_release_before_the_one_that_is_asked_for_reads_no_further(
    project: Path, tilewright: Command, monkeypatch: pytest.MonkeyPatch, version: str
) -> None:
    """What else is wrong with the spec may be what only a newer one knows."""
    monkeypatch.setattr("tilewright_generator.requires.__version__", version)
    write(project, '">=0.10"', "family: of_the_future\nfields: {}\n")
    for command in ("generate", "check", "list"):
        actual = tilewright(command)
        assert actual.code == 2
        assert actual.err.splitlines() == [
            f"specs/small.yaml:1:11: this spec needs tilewright >=0.10, and this is {version}",
            "1 fault; nothing was written." if command == "generate" else "1 fault.",
        ]
    assert not (project / "generated").exists()


@pytest.mark.parametrize("requires", ["0.2", "[a]", "", '"0.2"', '"newest"', '""'])
def test_what_is_no_range_of_releases(project: Path, tilewright: Command, requires: str) -> None:
    write(project, requires)
    actual = tilewright("generate")
    assert actual.code == 2
    assert 'requires: write releases as pip does, in quotes: ">=0.2", ">=0.2,<1"' in actual.err


def test_quotes_that_were_forgotten(project: Path, tilewright: Command) -> None:
    write(project, ">=0.2")
    actual = tilewright("generate")
    assert actual.code == 2
    assert actual.err.startswith(
        "specs/small.yaml:1:12: YAML: '>' and '|' begin a block of text; put a value"
    )
