"""What `generate` does on the disk: one process at a time, whole files, links that are not followed."""

from __future__ import annotations

import errno
import os
import resource
from pathlib import Path

import faults
import pytest
from command_line import Command
from written_project import FAST, change_template, forked, hidden


def test_who_reads_a_file_while_it_is_replaced_reads_all_of_it(project: Path, tilewright: Command) -> None:
    tilewright("generate")
    path = project / "generated" / FAST
    before = path.read_bytes()
    with path.open("rb") as reader:
        change_template(project)
        assert tilewright("generate").code == 0
        assert reader.read() == before
    assert path.read_bytes() == before + b"// another\n"


def test_a_link_to_a_folder_of_a_modules_name_is_refused(project: Path, tilewright: Command) -> None:
    tilewright("generate")
    folder, elsewhere = project / "generated/small", project / "elsewhere"
    folder.rename(elsewhere)
    folder.symlink_to(elsewhere)
    (elsewhere / Path(FAST).name).write_text("// by hand\n")
    before = {path.name: path.read_bytes() for path in elsewhere.iterdir()}
    change_template(project)
    for arguments in (["generate"], ["generate", "--force"], ["generate", "small"], ["check"]):
        actual = tilewright(*arguments)
        assert actual.code == 2
        assert f"{folder} is a symbolic link; tilewright writes the module small into a folder" in actual.err
    assert {path.name: path.read_bytes() for path in elsewhere.iterdir()} == before


def test_a_link_in_a_files_place_is_kept_and_what_it_leads_to_is_never_written(
    project: Path, tilewright: Command
) -> None:
    tilewright("generate")
    link, mine = project / "generated" / FAST, project / "mine.cu"
    link.rename(mine)
    link.symlink_to(mine)
    assert tilewright("check").code == 0, "a tree of links to files that are right is right"
    before = mine.read_bytes()
    change_template(project)
    actual = tilewright("generate")
    assert (actual.code, mine.read_bytes()) == (1, before)
    assert f"kept generated/{FAST}" in actual.err
    assert tilewright("generate", "--force").code == 0
    assert not link.is_symlink()
    assert mine.read_bytes() == before


def test_a_link_to_a_folder_in_a_files_place_is_kept(project: Path, tilewright: Command) -> None:
    folder = project / "mine"
    folder.mkdir()
    tilewright("generate")
    link = project / "generated" / FAST
    link.unlink()
    link.symlink_to(folder)
    checked = tilewright("check")
    assert (checked.code, f"changed  generated/{FAST}: " in checked.out) == (1, True), checked
    actual = tilewright("generate")
    assert (actual.code, f"kept generated/{FAST}: " in actual.err) == (1, True), actual
    assert (link.is_symlink(), list(folder.iterdir())) == (True, [])


def test_a_link_that_no_spec_makes_is_never_removed(project: Path, tilewright: Command) -> None:
    """Though what it leads to bears tilewright's header."""
    tilewright("generate")
    link = project / "generated/small/link.cu"
    link.symlink_to(project / "generated" / FAST)
    dangling = project / "generated/small/dangling.cu"
    dangling.symlink_to("nowhere")
    actual = tilewright("generate", "--force")
    assert actual.code == 0
    assert "kept generated/small/link.cu: not tilewright's, and no spec makes it" in actual.err
    assert link.is_symlink()
    assert dangling.is_symlink()


@pytest.mark.parametrize("stands", ["a folder", "a file", "a pipe", "a dangling link"])
@pytest.mark.parametrize("name", [".", "small", FAST, "small/manifest.txt"])
def test_what_is_in_the_way_is_named_and_nothing_hangs_or_is_lost(
    project: Path, tilewright: Command, stands: str, name: str
) -> None:
    path = project / "generated" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    if stands == "a folder":
        path.mkdir()
        (path / "mine.txt").write_text("mine\n")
    elif stands == "a file":
        path.write_text("mine\n")
    elif stands == "a pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("nowhere")
    for arguments in (["check"], ["generate"]):
        actual = tilewright(*arguments)
        fine = stands == "a folder" and name in (".", "small")
        assert actual.code == (1 if arguments == ["check"] else 0) if fine else actual.code in (1, 2)
        assert "internal error" not in actual.err
        assert str(path.name if name != "." else "generated") in actual.out + actual.err
    assert path.is_symlink() == (stands == "a dangling link")
    if stands == "a folder":
        assert (path / "mine.txt").read_text() == "mine\n"
    if stands == "a file":
        assert path.read_text() == "mine\n"


@forked
@pytest.mark.parametrize(("step", "changed"), [(3, False), (5, True)], ids=["the manifest", "a table"])
def test_a_write_that_fails_is_told_as_it_is_and_leaves_nothing_behind(
    project: Path, tilewright: Command, step: int, changed: bool
) -> None:
    """A limit on the size of files, as of a quota: sources fit it, the other files do not. What fails is the
    manifest that goes before the sources, or else, after them, the table."""
    tilewright("generate")
    source = project / "generated" / FAST
    before = source.read_bytes()
    change_template(project)

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 50, resource.RLIM_INFINITY))

    code, said = faults.Forked(["generate"], project / "generated", step, limit).end()
    assert code == 2, said
    name = "table.json" if changed else "manifest.txt"
    assert said.splitlines()[-1].endswith(
        f"generated/small/{name}: File too large; what has been written stays, and the next "
        "`tilewright generate` goes on"
    )
    assert (source.read_bytes() != before) == changed
    assert hidden(project / "generated") == []
    change_template(project, "// and another\n")
    assert tilewright("generate").code == 0
    assert tilewright("check").code == 0


@forked
def test_a_folder_that_cannot_be_written_is_compared_all_the_same(project: Path, tilewright: Command) -> None:
    tilewright("generate")

    def refuse() -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    code, said = faults.Forked(["generate"], project / "generated", 1, refuse).end()
    assert (code, said) == (0, "nothing to do: 4 kernels in 1 module are as the specs say\n")


def test_a_file_system_without_locks_is_written_all_the_same(
    project: Path, tilewright: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(*_: int) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr("fcntl.flock", unknown)
    assert tilewright("generate").code == 0
    assert tilewright("check").code == 0
    assert hidden(project / "generated") == []


def test_a_folder_that_is_not_needed_is_not_left(project: Path, tilewright: Command) -> None:
    change_template(project, "{{ unknown }}")
    assert tilewright("generate").code == 2
    assert not (project / "generated").exists()


@pytest.mark.parametrize(
    "name",
    ["generated/small/manifest.txt", f"generated/{FAST}", "generated/small/table.cc", "generated/extra"],
)
@pytest.mark.parametrize("target", ["/proc/self/pagemap", "large"])
@pytest.mark.skipif(not Path("/proc/self/pagemap").exists(), reason="only Linux has /proc")
def test_no_file_without_end_is_read(project: Path, tilewright: Command, name: str, target: str) -> None:
    tilewright("generate")
    with (project / "large").open("wb") as file:
        file.truncate(5 << 30)
    path = project / name
    path.unlink(missing_ok=True)
    path.symlink_to(target if target.startswith("/") else project / target)
    for command in ("check", "generate"):
        actual = tilewright(command)
        if name == "generated/extra":  # that no spec makes: it is kept, and not read
            assert actual.code == (1 if command == "check" else 0)
            continue
        said = "it holds more than its size says" if target.startswith("/") else "bytes"
        assert (actual.code, said in actual.err) == (2, True), actual.err
        assert str(path) in actual.err


def test_a_template_without_end_is_not_read(project: Path, tilewright: Command) -> None:
    path = project / "templates/tiny/kernel.cu.j2"
    with path.open("wb") as file:
        file.truncate(5 << 30)
    actual = tilewright("check")
    assert actual.code == 2
    assert f"cannot read the template tiny/kernel.cu.j2: {path}: more than 262144 bytes" in actual.err
