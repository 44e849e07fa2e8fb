"""Annotations for GitHub Actions."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import Command

FAULT = "::error file={},line=3,col=7,title=tilewright::arch: "


@pytest.fixture
def faulty(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose spec has a fault, outside of GitHub."""
    for name in ("GITHUB_ACTIONS", "GITHUB_WORKSPACE"):
        monkeypatch.delenv(name, raising=False)
    spec = project / "specs" / "small.yaml"
    spec.write_text(spec.read_text().replace("arch: sm_90a", "arch: sm_9,0a"))
    return project


@pytest.mark.parametrize("command", ["check", "generate"])
def test_faults_of_specs_stand_at_their_line(
    command: str, faulty: Path, tilewright: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = tilewright(command)
    assert (plain.code, "::error" in plain.err) == (2, False)
    asked = tilewright(command, "--output", "github")
    assert (asked.code, asked.out) == (2, "")
    assert asked.err.startswith(FAULT.format("specs/small.yaml"))
    assert asked.err.endswith(plain.err), "the usual messages follow"
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_WORKSPACE", str(faulty.parent))
    assert tilewright(command).err.startswith(FAULT.format(f"{faulty.name}/specs/small.yaml"))
    assert "::error" not in tilewright(command, "--output", "text").err


def test_drift_is_annotated_and_stdout_stays(
    project: Path, tilewright: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    assert tilewright("generate").code == 0
    (source, *_) = sorted((project / "generated").glob("small/*.cu"))
    source.unlink()
    plain, asked = tilewright("check"), tilewright("check", "--output", "github")
    assert (asked.code, asked.out) == (plain.code, plain.out) == (1, plain.out)
    first, *_ = asked.err.splitlines()
    path = source.relative_to(project)
    assert (
        first
        == f"::error file={path},title=tilewright::missing: a spec makes it; `tilewright generate` mends it"
    )


def test_what_github_reads_as_its_own_is_escaped(
    project: Path, tilewright: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GITHUB_WORKSPACE", raising=False)
    (project / "specs" / "small.yaml").rename(project / "specs" / "a,b:50%.yaml")
    first, *_ = tilewright("check", "--output", "github").err.splitlines()
    assert first.startswith(
        "::error file=specs/a%2Cb%3A50%25.yaml,line=1,col=1,title=tilewright::the file name"
    )
    assert "'a,b:50%25'" in first
