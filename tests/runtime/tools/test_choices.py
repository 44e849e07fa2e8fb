"""`tilewright choices`: what it says of each value is what selection chooses there."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tilewright.architectures.device import H200
from tilewright.context import Context
from tilewright.families.gemm.problem import Problem
from tilewright.selection.families import family_of
from tilewright_generator import cli
from tilewright_generator.cli import choices
from tilewright_generator.cli.choices import command

WORDS = ["gemm", "bf16", "m=10:90", "n=6144", "k=4096", "--device", "h200"]


def run(*words: Any) -> Result:
    result = CliRunner().invoke(command, [str(word) for word in words])
    assert result.exit_code == 0, result.output
    return result


def test_every_value_has_the_tactic_that_a_call_gets() -> None:
    answer = json.loads(run(*WORDS, "--json").stdout)
    assert (answer["device"], answer["last"]) == ("NVIDIA H200", 90)
    starts = [choice["first"] for choice in answer["choices"]]
    assert (starts[0], starts) == (10, sorted(set(starts)))
    context, family = Context(), family_of("gemm")
    for m in range(10, 91):
        entry = [choice for choice in answer["choices"] if choice["first"] <= m][-1]
        choice = context.select(family, Problem(m, 6144, 4096), H200)
        assert entry["tactic"] == str(choice.tactic)
        assert entry["module"] == context.registry.table_of(choice.record.name).module


@pytest.mark.parametrize(("k", "splits"), [(5632, []), (22400, ["4"])])
def test_batch_invariant_choices_split_k_alike(k: int, splits: list[str]) -> None:
    small = ["gemm", "bf16", "m=64:65", "n=256", f"k={k}", "--device", "h200"]
    free = re.findall(r"splits=(\d+)", run(*small).stdout)
    assert set(free) - {"4"}
    assert sorted({*re.findall(r"splits=(\d+)", run(*small, "--batch-invariant").stdout)}) == splits


def test_the_variable_stands_for_the_option(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = ["gemm", "bf16", "m=64:65", "n=256", "k=22400", "--device", "h200"]
    path = tmp_path / "small.hpp"
    expected = run(*small, "--batch-invariant").stdout
    monkeypatch.setenv("TILEWRIGHT_BATCH_INVARIANT", "1")
    monkeypatch.setattr(choices.sys, "argv", ["/usr/bin/tilewright", "choices", *small])
    assert run(*small, "-o", path, "--names").stdout
    assert run(*small).stdout == expected
    assert f"`tilewright choices {shlex.join(small)} --batch-invariant`" in path.read_text()


def test_the_header_says_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "qkv.hpp"
    monkeypatch.setattr(choices.sys, "argv", ["/usr/bin/tilewright", "choices", *WORDS, "-o", str(path)])
    answer = json.loads(run(*WORDS, "-o", path, "--json").stdout)
    text = path.read_text()
    assert text.startswith(
        f"// Written by `tilewright choices {shlex.join(WORDS)} -o qkv.hpp`. DO NOT EDIT.\n"
    )
    assert str(tmp_path) not in text
    entries = re.findall(r'\{(\d+), "(\w+)", "(\w+)", \{([\d, ]+)\}\}', text)
    assert f"Choices<tilewright_tactic, {len(entries)}> qkv = {{\n    90,\n" in text
    assert [(int(first), module, kernel) for first, module, kernel, _ in entries] == [
        (choice["first"], choice["module"], choice["tactic"].partition("@")[0])
        for choice in answer["choices"]
    ]
    for (*_, settings), choice in zip(entries, answer["choices"], strict=True):
        cluster = re.search(r"cluster=(\d)x(\d)", choice["tactic"])
        values = [int(value) for value in settings.split(", ")]
        assert values[5:7] == [int(extent) for extent in (cluster.groups() if cluster else "00")]
        assert values[-1] == H200.sm_count
    run(*WORDS, "-o", path, "--names")  # its own file is replaced
    path.write_text("int precious;\n")
    assert CliRunner().invoke(command, [*WORDS, "-o", str(path)]).exit_code != 0
    assert path.read_text() == "int precious;\n"


def test_names_for_a_build() -> None:
    names = run(*WORDS, "--names").stdout.strip().split(",")
    chosen = {
        choice["tactic"].partition("@")[0] for choice in json.loads(run(*WORDS, "--json").stdout)["choices"]
    }
    assert (set(names), len(names)) == (chosen, len(chosen))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["gemm", "bf16", "m=5", "n=64", "k=64"], "expected one extent with a range, such as m=1:256"),
        (["gemm", "bf16", "m=1:5", "n=1:64", "k=64"], "expected one extent with a range"),
        (["gemm", "bf16", "m=9:5", "n=64", "k=64"], "m=9:5: expected FIRST:LAST, with a FIRST from 1"),
        (["gemm", "bf16", "m=0:5", "n=64", "k=64"], "m=0:5: expected FIRST:LAST, with a FIRST from 1"),
        (["gemm", "bf16", "m=1:5", "n=64"], "k not given"),
        (["gmm", "bf16", "m=1:5"], "gmm"),
        (["gemm", "bf16", "m=1:5", "n=64", "k=64", "-o", "not-a-name.hpp"], "expected a name that is an"),
        (["gemm", "bf16", "m=1:5", "n=64", "k=64", "-o", "class.hpp"], "expected a name that is an"),
        (["gemm", "bf16", "m=1:5", "n=64", "k=64", "-o", "größe.hpp"], "expected a name that is an"),
        (["reduced_gemm", "bf16", "m=1:5", "n=64", "k=64", "--device", "thor"], "no reduced_gemm kernel"),
    ],
)
def test_usage(
    words: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.invoke(["choices", *words]) == 2
    assert said in capsys.readouterr().err
