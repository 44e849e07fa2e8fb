"""Two branches of a project, merged by git: `generate` mends what it wrote, without `--force`."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
import tiny_family
from command_line import Command
from faults import Forked

Edit = Callable[[], None]
KERNELS = "tile: [64x64x64, 128x128x64]"
# Far apart, so that git merges both lines of a spec.
LARGE = "".join(f"  - {{tile: {8 * n}x16x64, note: a group of its own}}\n" for n in range(1, 15))


class Repository:
    """A project in git, whose branches have been generated and committed."""

    def __init__(self, folder: Path, tilewright: Command) -> None:
        self.folder = folder
        self._tilewright = tilewright
        self.git("init", "--quiet", "--initial-branch=main")
        self.commit()

    def git(self, *arguments: str, fails: bool = False) -> str:
        who = ("-c", "user.name=A", "-c", "user.email=a@b", "-c", "merge.conflictStyle=diff3")
        command = ["git", *who, *arguments]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False)
        assert (done.returncode != 0) == fails, done.stdout + done.stderr
        return done.stdout

    def commit(self) -> None:
        assert self._tilewright("generate").code == 0
        self.git("add", "specs", "templates", "generated")
        self.git("commit", "--quiet", "--message", "as it is")

    def branch(self, name: str, edit: Edit) -> None:
        self.git("checkout", "--quiet", "-b", name, "main")
        edit()
        self.commit()

    def merge(self, ours: str, theirs: str, conflicts: bool) -> list[str]:
        """Merges one branch into the other. The files that git could not merge."""
        self.git("checkout", "--quiet", ours)
        self.git("merge", "--quiet", "--no-edit", theirs, fails=conflicts)
        return self.git("diff", "--name-only", "--diff-filter=U").splitlines()

    def files(self, folder: str = "generated") -> dict[str, bytes]:
        actual = (path for path in (self.folder / folder).rglob("*") if path.is_file())
        return {path.relative_to(self.folder / folder).as_posix(): path.read_bytes() for path in actual}


@pytest.fixture
def repository(project: Path, tilewright: Command) -> Repository:
    (project / ".gitignore").write_text("clean/\ncache/\n")
    other = tiny_family.SPEC.replace("bf16", "f16")
    (project / "specs/other.yaml").write_text(other)
    (project / "specs/small.yaml").write_text(tiny_family.SPEC + LARGE)
    return Repository(project, tilewright)


def replace(path: Path, old: str, new: str) -> Edit:
    def edit() -> None:
        text = path.read_text()
        assert text.count(old) == 1
        path.write_text(text.replace(old, new))

    return edit


def is_clean(repository: Repository, tilewright: Command) -> None:
    assert tilewright("check").code == 0
    assert tilewright("generate", "--out", repository.folder / "clean").code == 0
    assert repository.files() == repository.files("clean")


def test_branches_that_change_different_modules_merge_without_a_conflict(
    repository: Repository, project: Path, tilewright: Command
) -> None:
    more = "tile: [64x64x64, 32x128x64]"
    repository.branch("one", replace(project / "specs/small.yaml", KERNELS, more))
    repository.branch("two", replace(project / "specs/other.yaml", KERNELS, more))
    assert repository.merge("one", "two", conflicts=False) == []
    is_clean(repository, tilewright)


def test_branches_that_change_the_same_module_leave_what_generate_mends(
    repository: Repository, project: Path, tilewright: Command
) -> None:
    """Both add a kernel, and git merges the spec. Of the files that list kernels it leaves some in conflict,
    and merges others into something that neither branch wrote."""
    spec = project / "specs/small.yaml"
    repository.branch("one", replace(spec, "{tile: 8x16x64,", "{tile: [8x16x64, 8x8x64],"))
    repository.branch("two", replace(spec, "{tile: 104x16x64,", "{tile: [104x16x64, 104x8x64],"))
    unmerged = repository.merge("one", "two", conflicts=True)
    assert "generated/small/manifest.txt" in unmerged
    assert "generated/small/table.json" not in unmerged, "git merged it, as text"
    assert "specs/small.yaml" not in unmerged
    checked = tilewright("check")
    assert checked.code == 1
    assert "generated/small/manifest.txt: it holds the conflict of a merge" in checked.out
    assert "--force" not in checked.err
    actual = tilewright("generate")
    assert (actual.code, actual.err) == (0, "")
    assert "~ small/table.cc: git merged it from two branches, in which it differs" in actual.out
    is_clean(repository, tilewright)
    repository.git("add", "generated")
    assert repository.git("diff", "--name-only", "--diff-filter=U") == ""


def test_a_spec_in_conflict_is_one_error_and_generate_mends_the_rest_when_it_is_resolved(
    repository: Repository, project: Path, tilewright: Command
) -> None:
    spec = project / "specs/small.yaml"
    repository.branch("one", replace(spec, KERNELS, "tile: [64x64x64, 128x64x64]"))
    repository.branch("two", replace(spec, KERNELS, "tile: [64x64x64, 64x128x64]"))
    unmerged = repository.merge("one", "two", conflicts=True)
    assert {"specs/small.yaml", "generated/small/table.json", "generated/small/table.cc"} <= set(unmerged)
    before = repository.files()
    for command in ("generate", "check", "list"):
        actual = tilewright(command)
        assert actual.code == 2
        said = "specs/small.yaml:6:1: the conflict of a merge; resolve all of them here"
        assert actual.err.startswith(said), actual.err
        assert actual.err.endswith(
            "\n1 fault; nothing was written.\n" if command == "generate" else "\n1 fault.\n"
        )
    assert repository.files() == before
    resolved = tiny_family.SPEC + LARGE
    spec.write_text(resolved.replace(KERNELS, "tile: [64x64x64, 128x64x64, 64x128x64]"))
    actual = tilewright("generate")
    assert (actual.code, actual.err) == (0, "")
    is_clean(repository, tilewright)


def test_a_manifest_that_was_resolved_by_hand_beside_files_that_were_not(
    repository: Repository, project: Path, tilewright: Command
) -> None:
    spec = project / "specs/small.yaml"
    repository.branch("one", replace(spec, KERNELS, "tile: [64x64x64, 128x64x64]"))
    repository.branch("two", replace(spec, KERNELS, "tile: [64x64x64, 64x128x64]"))
    repository.merge("one", "two", conflicts=True)
    repository.git("checkout", "--quiet", "--ours", "specs", "generated/small/manifest.txt")
    assert b"<<<<<<< " in (project / "generated/small/table.json").read_bytes()
    actual = tilewright("generate")
    assert "~ small/table.json: it holds the conflict of a merge" in actual.out
    assert b"<<<<<<< " not in b"".join(repository.files().values())
    theirs = "kept generated/small/tiny_bf16_64x128x64_1x1.cu: tilewright wrote it, but no manifest lists it"
    assert theirs in actual.err, "the manifest that would list it has been resolved away"


def test_branches_that_change_a_template_and_a_spec(
    repository: Repository, project: Path, tilewright: Command
) -> None:
    """What one branch adds has been made from the other's old template."""
    template = project / "templates/tiny/kernel.cu.j2"
    repository.branch("one", replace(template, "Kernel<", "template Kernel<"))
    repository.branch("two", replace(project / "specs/small.yaml", KERNELS, "tile: [64x64x64, 32x128x64]"))
    repository.merge("one", "two", conflicts=True)
    assert tilewright("generate").code == 0
    is_clean(repository, tilewright)


def test_a_module_that_one_branch_removes_and_the_other_changes(
    repository: Repository, project: Path, tilewright: Command
) -> None:
    spec = project / "specs/small.yaml"
    repository.branch("one", replace(spec, KERNELS, "tile: [64x64x64, 32x128x64]"))
    repository.branch("two", spec.unlink)
    assert "specs/small.yaml" in repository.merge("one", "two", conflicts=True)
    assert tilewright("generate").code == 0, "git leaves the spec that was changed"
    is_clean(repository, tilewright)
    spec.unlink()
    assert tilewright("generate").code == 0
    assert not (project / "generated/small").exists()


def test_what_was_edited_by_hand_is_still_kept_while_a_merge_is_in_conflict(
    repository: Repository, project: Path, tilewright: Command
) -> None:
    """A file without conflict, on whose hash the branches agree, one that is nobody's, and one in which the
    branches differ and that somebody has replaced."""
    spec = project / "specs/small.yaml"
    repository.branch("one", replace(spec, "{tile: 8x16x64,", "{tile: [8x16x64, 8x8x64],"))
    repository.branch("two", replace(spec, "{tile: 104x16x64,", "{tile: [104x16x64, 104x8x64],"))
    repository.merge("one", "two", conflicts=True)
    edited = project / "generated/small/tiny_bf16_64x64x64_1x1_fast.cu"
    edited.write_text(edited.read_text() + "// by hand\n")
    mine = project / "generated/small/mine.cu"
    mine.write_text("<<<<<<< ours\n=======\n>>>>>>> theirs\n")
    replaced = project / "generated/small/table.cc"
    replaced.write_text("// by hand\n")
    before = edited.read_bytes()
    actual = tilewright("generate")
    assert actual.code == 1
    assert f"kept generated/small/{edited.name}: edited by hand" in actual.err
    assert "kept generated/small/mine.cu: not tilewright's" in actual.err
    assert f"kept generated/small/{replaced.name}: edited by hand" in actual.err
    assert (edited.read_bytes(), replaced.read_text(), mine.exists()) == (before, "// by hand\n", True)


def test_a_merge_that_is_killed_while_it_is_mended(
    repository: Repository, project: Path, tilewright: Command
) -> None:
    """The journal takes the place of the manifest's conflict, and knows the files that git merged as text."""
    spec = project / "specs/small.yaml"
    repository.branch("one", replace(spec, "{tile: 8x16x64,", "{tile: [8x16x64, 8x8x64],"))
    repository.branch("two", replace(spec, "{tile: 104x16x64,", "{tile: [104x16x64, 104x8x64],"))
    step = 0
    while True:
        repository.merge("one", "two", conflicts=True)
        fault = lambda: os.kill(os.getpid(), signal.SIGKILL)  # noqa: E731
        code, said = Forked(["generate"], project / "generated", step, fault).end()
        if code == 0:  # it has fewer steps
            break
        assert code == -signal.SIGKILL, said
        assert tilewright("generate").code == 0, f"killed at step {step}"
        is_clean(repository, tilewright)
        repository.git("reset", "--quiet", "--hard")
        step += 1
    assert step > 2 * 4
