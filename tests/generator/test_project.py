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
    actual = Project.find()
    assert (actual.root, actual.out) == (project, project / "generated")
    assert actual.templates[0] == project / "templates"
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
    actual = Project.find()
    assert actual.label(project / "specs" / "small.yaml") == "specs/small.yaml"
    assert actual.label(Path("specs/../specs/small.yaml")) == "specs/small.yaml"
    with pytest.raises(UsageError, match=r"'specs/a\\n#error/small.yaml' holds a line break"):
        actual.label(project / "specs" / "a\n#error" / "small.yaml")
    assert actual.label(tmp_path_factory.mktemp("other") / "big.yaml") == "big.yaml"


def test_a_spec_that_is_named_twice_counts_once(project: Path) -> None:
    assert Project.find().chosen([Path("small"), Path("specs/small.yaml")]) == [project / "specs/small.yaml"]


def test_a_spec_that_is_a_link_to_itself(project: Path, tilewright: Command) -> None:
    (project / "specs" / "loop.yaml").symlink_to("loop.yaml")
    actual = tilewright("list")
    assert (actual.code, "cannot read the spec" in actual.err) == (2, True)


def test_a_spec_that_is_a_link_to_nothing(project: Path, tilewright: Command) -> None:
    """The link is named, which is what can be mended."""
    (project / "specs" / "z.yaml").symlink_to("nonexistent")
    actual = tilewright("check")
    assert actual.code == 2
    assert actual.err.startswith(f"specs/z.yaml:1:1: cannot read the spec {project / 'specs' / 'z.yaml'}: ")


def test_only_what_writes_says_that_nothing_was_written(project: Path, tilewright: Command) -> None:
    (project / "specs" / "small.yaml").write_text("family: tiny\n")
    for command in ("check", "list"):
        assert tilewright(command).err.splitlines()[-1] == "1 fault."
    assert tilewright("generate").err.splitlines()[-1] == "1 fault; nothing was written."


@pytest.mark.parametrize("group", [[], ["bench"], ["run"]], ids=["all", "bench", "run"])
def test_help_says_whole_sentences_of_commands(tilewright: Command, group: list[str]) -> None:
    text = tilewright(*group, "--help").out
    assert "..." not in text.partition("\nCommands:\n")[2]


def test_help_after_another_command(project: Path, tilewright: Command) -> None:
    """In one process: a command's module stands in the package under its name."""
    assert tilewright("list").code == 0
    actual = tilewright("--help")
    assert (actual.code, "  list      " in actual.out) == (0, True)
