"""Nothing that tilewright writes goes through a symbolic link: each writer names the link, exits with 2, and
what the link leads to stays as it is."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import tiny_family
from command_line import Command

from tilewright.architectures.device import H200
from tilewright.base import paths, writing
from tilewright.errors import TilewrightError, UnwritableFileError
from tilewright.families.gemm.family import FAMILY
from tilewright.selection.tuned_header import Header
from tilewright.tools.tuning import tuned_writing
from tilewright_generator import records
from tilewright_generator.apply import apply
from tilewright_generator.cli.output_files import OutputFile
from tilewright_generator.exclusive import LOCK
from tilewright_generator.plan import Action, Change, FilePlan, ModulePlan

HEADER = Header(H200.name, "9.0", 132, "580.1", "13.0", "4.2.0")
SAID = "a symbolic link, and nothing is written through links"


@pytest.fixture
def outside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of somebody's, with a file and a folder."""
    folder = tmp_path_factory.mktemp("outside")
    (folder / "file").write_text("mine\n")
    (folder / "folder").mkdir()
    return folder


def untouched(outside: Path) -> bool:
    names = sorted(path.relative_to(outside).as_posix() for path in outside.rglob("*"))
    return names == ["file", "folder"] and (outside / "file").read_text() == "mine\n"


LINKS = [
    ("generate", "generated"),
    ("generate", f"generated/{LOCK}"),
    ("schema", "specs/schema"),
    ("schema", "specs/schema/tiny.schema.json"),
]


@pytest.mark.parametrize("target", ["file", "folder", "nothing"])
@pytest.mark.parametrize("written", LINKS, ids=" ".join)
def test_a_command_writes_through_no_link_of_the_project(
    project: Path, tilewright: Command, outside: Path, written: tuple[str, str], target: str
) -> None:
    command, name = written
    link = project / name
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(outside / target)
    actual = tilewright(command)
    assert actual.code == 2
    assert f"{link}: {SAID}" in actual.err
    assert f"Remove the link, or name the place that it leads to: {outside / target}" in actual.err
    assert link.is_symlink()
    assert untouched(outside)


def test_a_folder_above_what_is_written_may_be_no_link_of_the_project(
    project: Path, tilewright: Command, outside: Path
) -> None:
    (project / "specs").rename(project / "moved")
    (project / "specs").symlink_to(project / "moved")
    actual = tilewright("schema")
    assert (actual.code, f"{project / 'specs'}: {SAID}" in actual.err) == (2, True)
    assert not (project / "moved/schema").exists()
    (project / "in").symlink_to(outside / "folder")
    assert tilewright("generate", "--out", "in/generated").code == 2
    assert untouched(outside)


def test_a_project_may_be_reached_through_a_link(
    project: Path, tilewright: Command, tmp_path_factory
) -> None:
    link = tmp_path_factory.mktemp("home") / "project"
    link.symlink_to(project)
    assert tilewright("generate", "--root", link).code == 0
    assert tilewright("schema", "--root", link).code == 0
    assert (project / "generated/small/table.json").is_file()


def _report(path: Path) -> None:
    OutputFile(path, re.compile(b"mine")).write("{}")


def _record(path: Path) -> None:
    records.write(path, {"format": 1}, [])


def _tuned(path: Path) -> None:
    tuned_writing.update(path, HEADER, FAMILY, [])


@pytest.mark.parametrize("target", ["file", "nothing"])
@pytest.mark.parametrize("write", [_report, _record, _tuned], ids=lambda write: write.__name__)
def test_no_file_is_written_through_a_link(
    write: Callable[[Path], None], target: str, tmp_path: Path, outside: Path
) -> None:
    path = tmp_path / "folder" / "x.json"
    path.parent.mkdir()
    path.symlink_to(outside / target)
    with pytest.raises(UnwritableFileError, match=SAID):
        write(path)
    assert path.is_symlink()
    assert untouched(outside)


@pytest.mark.parametrize("name", ["tuned", "tuned/nvidia_h200", "tuned/nvidia_h200/gemm.json.lock"])
def test_tuned_files_stand_in_folders_that_are_no_links(name: str, tmp_path: Path, outside: Path) -> None:
    link = tmp_path / name
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(outside / ("nothing" if name.endswith("lock") else "folder"))
    path = paths.tuned_file(tmp_path / "tuned", H200.name, "gemm")
    with pytest.raises(TilewrightError, match=SAID) as caught:
        tuned_writing.update(path, HEADER, FAMILY, [])
    assert caught.value.exit_code == 2
    assert str(link) in caught.value.message
    assert untouched(outside)


def test_a_draft_follows_no_link_and_writes_no_file_of_other_names(tmp_path: Path, outside: Path) -> None:
    """Its name can be foreseen, so somebody may have put a link or a hard link there."""
    draft, path = tmp_path / ".draft", tmp_path / "file"
    for stand in (
        lambda: draft.symlink_to(outside / "file"),
        lambda: draft.symlink_to(outside / "nothing"),
        lambda: os.link(outside / "file", draft),
        lambda: draft.write_text("of a run that was killed"),
    ):
        stand()
        writing.replace(str(draft), str(path), b"new")
        assert path.read_bytes() == b"new"
        assert not path.is_symlink()
        assert not draft.exists()
        assert untouched(outside)


def test_what_apply_writes_goes_through_no_link(tmp_path: Path, outside: Path) -> None:
    """Links that have come after the plan was made: in the file's place, and in its draft's."""
    generated = tmp_path / "generated"
    (generated / "small").mkdir(parents=True)
    (generated / f".tilewright-{os.getpid()}").symlink_to(outside / "file")
    (generated / "small/a.cu").symlink_to(outside / "file")
    apply(FilePlan(generated, [ModulePlan("small", [Action(Change.ADD, "a.cu", b"new")])]))
    assert (generated / "small/a.cu").read_bytes() == b"new"
    assert not (generated / "small/a.cu").is_symlink()
    assert untouched(outside)


def test_devices_and_pipes_that_a_command_names_are_written_to(tmp_path: Path) -> None:
    writing.write(Path(os.devnull), "nothing")
    assert Path(os.devnull).is_char_device()
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    writing.write(pipe, "text")
    assert os.read(reader, 10) == b"text"
    os.close(reader)
    with pytest.raises(UnwritableFileError, match="a folder, where a file is to be written"):
        writing.write(tmp_path, "text")


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    path.write_text("before")

    def refuse(descriptor: int, data: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.write", refuse)
        with pytest.raises(OSError, match="No space left"):
            writing.write(path, "after")
    assert [each.name for each in tmp_path.iterdir()] == ["file"]
    assert path.read_text() == "before"
    writing.write(path, "after")
    assert path.read_text() == "after"


def test_a_template_may_be_a_link(project: Path, tilewright: Command, outside: Path) -> None:
    """It is read, and nothing is written to it."""
    (outside / "file").write_text(tiny_family.TEMPLATE)
    (project / "templates/tiny/kernel.cu.j2").unlink()
    (project / "templates/tiny/kernel.cu.j2").symlink_to(outside / "file")
    assert tilewright("generate").code == 0
