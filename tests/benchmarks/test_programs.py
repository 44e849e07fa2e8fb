"""Every program of benchmarks/ explains itself, and says what it lacks on a machine without a GPU."""

from __future__ import annotations

import argparse
import re
import runpy
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("numpy")
pytest.importorskip("yaml")

ROOT = Path(__file__).parents[2]
PROGRAMS = sorted(
    path
    for path in (ROOT / "benchmarks").rglob("*.py")
    if '\nif __name__ == "__main__":\n' in path.read_text(encoding="utf-8")
)
# They measure on a GPU by themselves, or leave it to a module of benchmarks/lib that does.
ON_A_GPU = [
    path
    for path in PROGRAMS
    if re.search(r"require_gpu\(|beside_peers\.|tactic_times\.", path.read_text(encoding="utf-8"))
]
ARGUMENTS = {
    "cold_launches": ["scaled"],
    "cold_times": ["scaled"],
    "cute_dsl": ["gemm", "--seed", "1", "--output", "page"],
    "deepgemm_tests": ["tests"],
    "every_algorithm": ["bf16"],
    "gemm_tactics": ["*"],
    "quantize_bandwidth": ["--output", "page"],
}


INDEX = (ROOT / "benchmarks/results/README.md").read_text(encoding="utf-8")
# Commands of records, without those whose words stand for several others.
COMMANDS = [
    command
    for command in dict.fromkeys(re.findall(r"`[^`]*(python -m benchmarks\.[^`]*)`", INDEX))
    if not re.search(r"\.\.\.|\b(KINDS|MODULE|TYPE|F|N)\b", command)
]


def run(path: Path, *arguments: str) -> Any:
    """What the program ends with: the argument of its SystemExit."""
    sys.argv = [str(path), *arguments]
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(path), run_name="__main__")
    return ended.value.code


def name(path: Path) -> str:
    return path.stem


@pytest.fixture(autouse=True)
def command_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", [])  # restored after the test


@pytest.mark.parametrize("path", PROGRAMS, ids=name)
def test_a_program_has_help(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its help names its command, and says of every option what it means."""
    silent, add = [], argparse.ArgumentParser.add_argument

    def noted(parser: argparse.ArgumentParser, *names: str, **settings: Any) -> Any:
        if not settings.get("help"):
            silent.append(names)
        return add(parser, *names, **settings)

    monkeypatch.setattr(argparse.ArgumentParser, "add_argument", noted)
    assert run(path, "--help") == 0
    module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
    assert f"python -m {module.removesuffix('.__main__')}" in capsys.readouterr().out
    assert not silent


class ParsedError(Exception):
    """A program has understood its command line."""


@pytest.mark.parametrize("command", COMMANDS)
def test_a_recorded_command_is_understood(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record can be measured again by its command."""
    parse = argparse.ArgumentParser.parse_args

    def parsed(parser: argparse.ArgumentParser, *arguments: Any) -> Any:
        parse(parser, *arguments)
        raise ParsedError

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", parsed)
    _, _, module, *arguments = shlex.split(command)
    path = ROOT / f"{module.replace('.', '/')}.py"
    monkeypatch.setattr(sys, "argv", [str(path), *arguments])
    with pytest.raises(ParsedError):
        runpy.run_path(str(path), run_name="__main__")


def test_most_recorded_commands_can_be_parsed() -> None:
    assert len(COMMANDS) > 50


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is here")
@pytest.mark.parametrize("path", ON_A_GPU, ids=name)
def test_a_program_says_that_it_needs_a_gpu(path: Path, tmp_path: Path) -> None:
    needs_output = re.search(r'"--output", type=Path, required=True|beside_peers\.', path.read_text())
    arguments = ARGUMENTS.get(name(path), ["--output", str(tmp_path / "x.csv.bz2")] if needs_output else [])
    assert run(path, *arguments) == "this program needs a GPU, and torch finds none"
    assert not list(tmp_path.iterdir())


def test_the_readme_names_every_program_and_those_that_need_a_gpu() -> None:
    text = (ROOT / "benchmarks/README.md").read_text(encoding="utf-8")
    lines = re.findall(r"^\| (`.*`) \| .* \| (.*) \|$", text.partition("## Comparing")[2], re.MULTILINE)
    needs = {program: need for programs, need in lines for program in re.findall(r"`([\w/]+)`", programs)}
    folders = ("compare", "fit", "host", "robustness")
    programs = [path.relative_to(ROOT / "benchmarks").with_suffix("") for path in PROGRAMS]
    listed = {path.as_posix().partition("/")[2] for path in programs if path.parts[0] in folders}
    assert set(needs) == listed
    assert {name for name, need in needs.items() if need.startswith("GPU")} == {
        path.stem for path in ON_A_GPU
    }
    assert len(ON_A_GPU) > 35
