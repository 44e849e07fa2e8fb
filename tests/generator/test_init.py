"""`tilewright init` starts a repository in which the other commands work at once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from command_line import ROOT, Command, untracked

from tilewright.declarations import catalog
from tilewright_generator import project_start

SHIPPED = sorted(path.stem for path in (ROOT / "specs").glob("*.yaml"))


def specs(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "specs").glob("*.yaml"))


def works(folder: Path, tilewright: Command) -> list[str]:
    """The names of the kernels, once `generate` and `check` have passed and `build` knows what to compile."""
    assert tilewright("check", "--root", folder).code == 1, "nothing is generated yet"
    assert tilewright("generate", "--root", folder).code == 0
    assert tilewright("check", "--root", folder).code == 0
    tables = [json.loads(path.read_text()) for path in (folder / "generated").glob("*/table.json")]
    names = [row["name"] for table in tables for row in table["kernels"]]
    plan = tilewright("build", "--root", folder, "--cache", folder.parent / "cache", "--dry-run")
    assert f"{len(names)} to compile" in plan.out, plan
    return names


def test_a_few_lean_products_are_the_default(tmp_path: Path, tilewright: Command) -> None:
    folder = tmp_path / "mine"
    answer = tilewright("init", folder)
    assert answer.code == 0
    assert f"wrote {folder}/.gitattributes" in answer.out
    assert "tilewright generate       # specs/gemm.yaml" in answer.out
    assert "  git init && git add . && pre-commit install\n" in answer.out
    names = works(folder, tilewright)
    assert len(names) == 4
    assert all("_lean_" in name for name in names)


def test_copies_of_shipped_kernels_are_no_warning(tmp_path: Path, tilewright: Command) -> None:
    """A new repository's kernels have other comments. A kernel with other code is one."""
    folder = tmp_path / "mine"
    tilewright("init", folder)
    tilewright("generate", "--root", folder)
    answer = tilewright("doctor", "--root", folder)
    assert f"4 kernels of {folder}/generated have the source of those in shipped" in answer.out
    assert "another of that name" not in answer.out
    (table,) = (folder / "generated").glob("*/table.json")
    row = json.loads(table.read_text())["kernels"][0]
    source = table.with_name(row["source"])
    source.write_text(source.read_text().replace("kStages = ", "kStages = 1 + "))
    table.write_text(table.read_text().replace(row["sha256"], "0" * 64))
    answer = tilewright("doctor", "--root", folder)
    assert "3 kernels of" in answer.out
    assert f"{row['name']}: the kernel of {folder}/generated is used, another of that name" in answer.out


def test_ci_the_hook_and_git_know_the_generated_files(tmp_path: Path, tilewright: Command) -> None:
    assert tilewright("init", tmp_path).code == 0
    workflow = yaml.safe_load((tmp_path / ".github/workflows/tilewright.yml").read_text())
    assert workflow["jobs"]["check"]["steps"][-1] == {"run": "tilewright check", "env": {"PYTHONPATH": "."}}
    (repository,) = yaml.safe_load((tmp_path / ".pre-commit-config.yaml").read_text())["repos"]
    assert repository["hooks"][0]["entry"] == "tilewright check"
    assert "generated/** linguist-generated=true" in (tmp_path / ".gitattributes").read_text()
    assert (tmp_path / "README.md").read_text().startswith(f"# {tmp_path.name}\n")
    assert (tmp_path / "specs/schema/gemm.schema.json").exists()


def test_git_ignores_what_is_not_committed(tmp_path: Path, tilewright: Command) -> None:
    assert tilewright("init", tmp_path).code == 0
    committed = untracked(tmp_path)
    assert ".gitignore" in committed
    for left in (".venv/bin/python", "tilewright_kernels-1.0.whl", "tuned/nvidia_h200/gemm.json.lock"):
        path = tmp_path / left
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert untracked(tmp_path) == committed


@pytest.mark.parametrize("family", catalog.names())
def test_every_family_has_a_spec_of_few_kernels(family: str, tmp_path: Path, tilewright: Command) -> None:
    folder = tmp_path / "mine"
    assert tilewright("init", folder, "--family", family).code == 0
    (spec,) = specs(folder)
    assert f"family: {family}\n" in (folder / "specs" / spec).read_text()
    assert len(works(folder, tilewright)) in (1, 4)


def test_a_shipped_spec_is_copied_whole(tmp_path: Path, tilewright: Command) -> None:
    folder = tmp_path / "mine"
    assert tilewright("init", folder, "--spec", "sm90_gemm_stream").code == 0
    copied = (folder / "specs/sm90_gemm_stream.yaml").read_text().splitlines()
    original = (ROOT / "specs/sm90_gemm_stream.yaml").read_text().splitlines()
    assert copied[1].startswith("# Copied from specs/sm90_gemm_stream.yaml of tilewright ")
    assert [copied[0], *copied[2:]] == original
    shipped = json.loads((ROOT / "generated/sm90_gemm_stream/table.json").read_text())["kernels"]
    assert works(folder, tilewright) == [row["name"] for row in shipped]


def test_a_second_spec_joins_and_keeps_what_is_there(tmp_path: Path, tilewright: Command) -> None:
    assert tilewright("init", tmp_path).code == 0
    (tmp_path / "README.md").write_text("mine\n")
    (tmp_path / ".git").mkdir()
    answer = tilewright("init", tmp_path, "--spec", "scale_columns")
    assert answer.code == 0
    assert "kept README.md" in answer.err
    assert "kept .gitignore" in answer.err
    assert (tmp_path / "README.md").read_text() == "mine\n"
    assert specs(tmp_path) == ["gemm.yaml", "scale_columns.yaml"]
    assert "  git add . && pre-commit install\n" in answer.out


def test_a_spec_is_never_replaced(tmp_path: Path, tilewright: Command) -> None:
    (tmp_path / "specs").mkdir()
    (tmp_path / "specs" / "gemm.yaml").write_text("mine\n")
    answer = tilewright("init", tmp_path, "--family", "gemm")
    assert answer.code == 2
    assert "is there already, and nothing was written" in answer.err
    assert [path.name for path in tmp_path.iterdir()] == ["specs"]
    assert (tmp_path / "specs" / "gemm.yaml").read_text() == "mine\n"


def test_a_repository_with_specs_gets_no_other_one_unasked(tmp_path: Path, tilewright: Command) -> None:
    assert tilewright("init", tmp_path, "--spec", "scale_columns").code == 0
    (tmp_path / "README.md").unlink()
    answer = tilewright("init", tmp_path)
    assert answer.code == 2
    assert "has specs already, such as scale_columns.yaml" in answer.err
    assert "--spec or --family names a spec to add" in answer.err
    assert not (tmp_path / "README.md").exists()
    assert specs(tmp_path) == ["scale_columns.yaml"]


def test_a_file_in_the_place_of_a_folder(tmp_path: Path, tilewright: Command) -> None:
    """It is found before anything is written."""
    for place in ("specs", ".github"):
        folder = tmp_path / place
        folder.mkdir()
        (folder / place).touch()
        answer = tilewright("init", folder)
        assert answer.code == 2
        assert f"{folder / place} is no folder, and nothing was written" in answer.err
        assert [path.name for path in folder.iterdir()] == [place]


def test_a_dry_run_writes_nothing(tmp_path: Path, tilewright: Command) -> None:
    answer = tilewright("init", tmp_path / "mine", "--dry-run")
    assert (answer.code, answer.out.count("would write ")) == (0, 7)
    assert not (tmp_path / "mine").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--spec", "sm90_gem_lean"], "no spec 'sm90_gem_lean' comes with tilewright; did you mean"),
        (["--family", "gem"], "did you mean 'gemm'?"),
        (["--spec", "quantize", "--family", "quantize"], "give one of them"),
    ],
)
def test_what_there_is_not(words: list[str], said: str, tmp_path: Path, tilewright: Command) -> None:
    answer = tilewright("init", tmp_path / "mine", *words)
    assert answer.code == 2
    assert said in answer.err
    assert not (tmp_path / "mine").exists()


def test_every_shipped_spec_can_be_named() -> None:
    assert sorted(project_start.shipped_specs()) == SHIPPED
