from __future__ import annotations

from pathlib import Path

import pytest
from command_line import Command

from tilewright_generator.errors import UsageError
from tilewright_generator.project import Project


def test_the_nearest_folder_with_specs_is_the_project(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    deep = project / "a" / "b"
    deep.mkdir(parents=True)
    monkeypatch.chdir(deep)
    found = Project.find()
    assert (found.root, found.out) == (project, project / "generated")
    assert found.templates[0] == project / "templates"
    assert Project.find(out="elsewhere").out == deep / "elsewhere"


def test_no_project_is_a_usage_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=r"holds specs/; give --root"):
        Project.find()
    with pytest.raises(UsageError, match="no such directory"):
        Project.find("nowhere")


def test_a_spec_is_called_alike_wherever_the_project_stands(
    project: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    found = Project.find()
    assert found.label(project / "specs" / "small.yaml") == "specs/small.yaml"
    assert found.label(Path("specs/../specs/small.yaml")) == "specs/small.yaml"
    with pytest.raises(UsageError, match=r"'specs/a\\n#error/small.yaml' holds a line break"):
        found.label(project / "specs" / "a\n#error" / "small.yaml")
    assert found.label(tmp_path_factory.mktemp("other") / "big.yaml") == "big.yaml"


def test_a_spec_that_is_a_link_to_itself(project: Path, tilewright: Command) -> None:
    (project / "specs" / "loop.yaml").symlink_to("loop.yaml")
    found = tilewright("list")
    assert (found.code, "cannot read the spec" in found.err) == (2, True)


def test_a_spec_that_is_a_link_to_nothing(project: Path, tilewright: Command) -> None:
    """The link is named, which is what can be mended."""
    (project / "specs" / "z.yaml").symlink_to("nonexistent")
    found = tilewright("check")
    assert found.code == 2
    assert found.err.startswith(f"specs/z.yaml:1:1: cannot read the spec {project / 'specs' / 'z.yaml'}: ")


def test_only_what_writes_says_that_nothing_was_written(project: Path, tilewright: Command) -> None:
    (project / "specs" / "small.yaml").write_text("family: tiny\n")
    for command in ("check", "list"):
        assert tilewright(command).err.splitlines()[-1] == "1 fault."
    assert tilewright("generate").err.splitlines()[-1] == "1 fault; nothing was written."


def test_help_after_another_command(project: Path, tilewright: Command) -> None:
    """In one process: a command's module stands in the package under its name."""
    assert tilewright("list").code == 0
    found = tilewright("--help")
    assert (found.code, "  list      " in found.out) == (0, True)
