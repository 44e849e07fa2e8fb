"""Whose files `generate` replaces and removes: manifests, edits by hand, other branches, killed runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import Command
from small_project import FAST, Tree, edit

from tilewright_generator import apply, manifest
from tilewright_generator.plan import Action

FORMAT = manifest.dumps({}, {})
DIGEST = b"0" * 64


def test_a_file_edited_by_hand_is_kept_until_forced(project: Path, tilewright: Command) -> None:
    tilewright("generate")
    edited = project / "generated" / FAST
    edited.write_text("// by hand\n")
    edit(project / "specs/small.yaml", "fast: [false, true]", "fast: false")  # and is to be removed
    kept = tilewright("generate")
    assert kept.code == 1
    assert f"kept generated/{FAST}: edited by hand since it was generated" in kept.err
    assert edited.read_text() == "// by hand\n"
    assert "nothing to do" not in tilewright("generate").out
    edit(project / "specs/small.yaml", "fast: false", "fast: [false, true]")  # and is to be written again
    assert tilewright("generate").code == 1
    assert edited.read_text() == "// by hand\n"
    forced = tilewright("generate", "--force")
    assert (forced.code, f"~ {FAST}" in forced.out) == (0, True)
    assert "// fast" in edited.read_text()
    assert tilewright("check").code == 0


def test_a_file_that_is_not_ours_is_neither_replaced_nor_removed(project: Path, tilewright: Command) -> None:
    (project / "generated/small").mkdir(parents=True)
    mine = project / "generated" / FAST
    mine.write_text("// mine\n")
    (project / "generated/notes.txt").write_text("notes\n")
    actual = tilewright("generate")
    assert actual.code == 1
    assert "not tilewright's, though a spec makes a file of this name" in actual.err
    assert mine.read_text() == "// mine\n"
    assert tilewright("generate", "--force").code == 0
    assert "// fast" in mine.read_text()
    assert (project / "generated/notes.txt").read_text() == "notes\n"


def test_without_a_manifest_files_that_are_right_are_adopted(
    project: Path, tilewright: Command, tree: Tree
) -> None:
    tilewright("generate")
    before = tree(project / "generated")
    (project / "generated/small/manifest.txt").unlink()
    assert tilewright("check").code == 1
    assert "  + small/manifest.txt\n  1 to add, 0 to change" in tilewright("generate").out
    after = tree(project / "generated")
    assert {name for name in after if after[name] != before[name]} == {"small/manifest.txt"}
    assert after["small/manifest.txt"][0] == before["small/manifest.txt"][0]


def test_a_manifest_that_was_altered_is_rewritten_and_that_is_said(
    project: Path, tilewright: Command
) -> None:
    tilewright("generate")
    path = project / "generated/small/manifest.txt"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:2] + lines[3:]))
    said = "  ~ small/manifest.txt: it does not list the files as they are\n"
    assert said in tilewright("generate", "--dry-run").out
    assert said in tilewright("generate").out
    assert path.read_text() == "".join(lines)
    assert tilewright("check").code == 0


def test_what_another_branch_generated_goes_when_forced_and_nothing_else(
    project: Path, tilewright: Command
) -> None:
    other = project / "specs/other.yaml"
    other.write_text((project / "specs/small.yaml").read_text().replace("bf16", "f16"))
    tilewright("generate")
    other.unlink()
    (project / "generated/other/manifest.txt").unlink()
    mine = project / "generated/other/mine.cu"
    mine.write_text("// mine\n")
    kept = tilewright("generate")
    assert kept.code == 1
    said = "tilewright wrote it, but no manifest lists it (another branch?)"
    assert f"kept generated/other/table.json: {said}" in kept.err
    assert f"kept generated/other/tiny_f16_64x64x64_1x1.cu: {said}" in kept.err
    assert "kept generated/other/mine.cu: not tilewright's, and no spec makes it" in kept.err
    assert "replace or remove 6 files with: tilewright generate --force" in tilewright("check").err
    assert tilewright("generate", "--force", "--filter", "fast=true").code == 1
    assert len(list((project / "generated/other").iterdir())) == 7, "a filtered run removes nothing"
    assert tilewright("generate", "--force").code == 0
    assert [path.name for path in (project / "generated/other").iterdir()] == ["mine.cu"]


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b"[" * 100_000,
        b"\xff\xfe",
        b"# format 2: something else\n",
        FORMAT + b"../../../etc/passwd\n",
        FORMAT + DIGEST + b"  ../../../etc/passwd\n",
        FORMAT + DIGEST + b"  /etc/passwd\n",
        FORMAT + DIGEST + b"  table",
        FORMAT + DIGEST + b"  .hidden\n",
        FORMAT + DIGEST + b"  notes/../../../notes.txt\n",
        FORMAT + DIGEST[:-1] + b"  table.cc\n",
    ],
)
def test_a_damaged_manifest_is_a_usage_error(project: Path, tilewright: Command, damage: bytes) -> None:
    tilewright("generate")
    path = project / "generated/small/manifest.txt"
    path.write_bytes(damage)
    actual = tilewright("generate")
    assert actual.code == 2
    assert "small/manifest.txt is damaged" in actual.err
    assert tilewright("check").code == 2
    path.unlink()
    assert tilewright("generate").code == 0, "as the message says"
    path.write_bytes(damage)
    assert tilewright("generate", "--force").code == 0
    assert tilewright("check").code == 0


def test_somebodys_folder_with_a_manifest_of_its_own_is_left_alone(
    project: Path, tilewright: Command
) -> None:
    mine = project / "generated/mine"
    mine.mkdir(parents=True)
    (mine / "manifest.txt").write_text("what I keep here\n")
    assert tilewright("generate", "--force").code == 0
    assert (mine / "manifest.txt").read_text() == "what I keep here\n"


def test_a_filter_writes_those_sources_and_removes_none(project: Path, tilewright: Command) -> None:
    tilewright("generate", "--filter", "fast=true", "--filter", "*64x64x64*")
    out = project / "generated"
    assert {path.name for path in out.glob("small/*.cu")} == {"tiny_bf16_64x64x64_1x1_fast.cu"}
    assert len(json.loads((out / "small/table.json").read_text())["kernels"]) == 4
    assert tilewright("check", "--filter", "fast=true", "--filter", "*64x64x64*").code == 0
    assert tilewright("check").code == 1
    tilewright("generate")
    edit(project / "specs/small.yaml", "fast: [false, true]", "fast: false")
    actual = tilewright("generate", "--filter", "tile=64x*")
    assert "0 to remove" in actual.out
    assert (actual.code, actual.err) == (0, ""), "what the filter leaves is nobody's edit"
    assert (out / FAST).exists()
    assert "0 to add, 1 to change, 2 to remove" in tilewright("generate").out


_CHANGED = "small: templates/tiny/kernel.cu.j2 has changed since the files were made from it"


def test_a_filtered_run_keeps_the_templates_of_what_it_leaves(project: Path, tilewright: Command) -> None:
    assert tilewright("generate").code == 0
    edit(project / "templates/tiny/kernel.cu.j2", "// fast", "// quick")
    assert _CHANGED in tilewright("check").err
    assert tilewright("generate", "--filter", "*_128x128x64_*_fast").code == 0
    actual = tilewright("check")
    assert (actual.code, _CHANGED in actual.err) == (1, True), "the others are of the template as it was"
    assert tilewright("generate").code == 0
    assert tilewright("check").code == 0


def test_a_run_that_is_killed_keeps_the_templates_of_what_it_has_not_replaced(
    project: Path, tilewright: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert tilewright("generate").code == 0
    edit(project / "templates/tiny/kernel.cu.j2", "// fast", "// quick")
    original = apply._do
    done: list[str] = []

    def once(folder: Path, module: str, action: Action) -> None:
        if done:
            raise KeyboardInterrupt
        done.append(action.name)
        original(folder, module, action)

    with monkeypatch.context() as killed:
        killed.setattr(apply, "_do", once)
        assert tilewright("generate").code == 130
    assert done == ["manifest.txt"], "the journal"
    assert _CHANGED in tilewright("check").err
    assert tilewright("generate").code == 0
    assert tilewright("check").code == 0
