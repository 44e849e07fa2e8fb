"""What all commands have in common: their names, -q and -v, completion."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import click
import pytest
from command_line import ROOT, Command, run_in_a_process

from tilewright_generator import cli
from tilewright_generator.cli import verbosity


@pytest.mark.parametrize("words", [["cache", "--older-than", "nan"], ["tune", "--seconds", "nan"]])
def test_no_number_is_refused(words: list[str], tilewright: Command) -> None:
    actual = tilewright(*words)
    assert actual.code == 2
    assert f"Invalid value for '{words[1]}': nan is no number" in actual.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["lst"], "no command 'lst'; did you mean 'list'?"),
        (["Generat"], "no command 'Generat'; did you mean 'generate'?"),
        (["xyz"], "no command 'xyz'; there are: generate, check, "),
    ],
)
def test_a_command_that_there_is_not(words: list[str], said: str, tilewright: Command) -> None:
    actual = tilewright(*words)
    assert (actual.code, said in actual.err) == (2, True), actual.err


def commands() -> Iterator[tuple[str, click.Command]]:
    """Every command, those of `run` and `bench` too."""
    for name in cli.COMMANDS:
        with click.Context(cli.tilewright) as context:
            command = cli.tilewright.get_command(context, name)
        assert command is not None
        yield name, command
        if isinstance(command, click.Group):
            with click.Context(command) as context:
                for inner in command.list_commands(context):
                    actual = command.get_command(context, inner)
                    assert actual is not None
                    yield f"{name} {inner}", actual


COMMANDS = dict(commands())


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_takes_q_and_v_in_the_same_words(name: str) -> None:
    given = {option: parameter for parameter in COMMANDS[name].params for option in parameter.opts}
    of_all = {option: parameter for parameter in cli.tilewright.params for option in parameter.opts}
    for option in ("-q", "--quiet", "-v", "--verbose"):
        assert given[option].to_info_dict() == of_all[option].to_info_dict()


def test_q_leaves_notes_out(project: Path, tilewright: Command) -> None:
    (project / "specs" / "other.yml").write_text("")
    loud = tilewright("list")
    assert loud.err == "specs/other.yml is ignored: specs are specs/*.yaml\n"
    *kernels, legend = loud.out.splitlines(keepends=True)
    while not legend.startswith("b built here"):
        *kernels, legend = kernels
    for words in (["-q", "list"], ["list", "-q"], ["list", "--quiet"]):
        assert tilewright(*words) == (loud.code, "".join(kernels), "")
    wrong = tilewright("-q", "list", "--filter", "nothing")
    assert (wrong.code, wrong.out) == (2, "")
    assert "no kernel meets --filter nothing" in wrong.err, "errors are said"


def test_q_of_generate_and_check_says_nothing_where_all_is_well(project: Path, tilewright: Command) -> None:
    spec = project / "specs" / "small.yaml"
    spec.write_text(
        spec.read_text() + "  - {dtype: [f16, e4m3], tile: [32x64x64, 256x64x64]}\n"
    )  # f16 may not have 256 rows
    planned = tilewright("generate", "--dry-run", "-q")
    assert ("left out" in planned.out, "to add" in planned.out) == (False, True), "the plan was asked for"
    assert "left out" in tilewright("generate", "--dry-run").out
    assert tilewright("generate", "-q") == (0, "", "")
    assert tilewright("generate", "-q") == (0, "", "")
    assert tilewright("check", "-q") == (0, "", "")
    source = next((project / "generated" / "small").glob("*.cu"))
    source.write_text(source.read_text() + "// mine\n")
    edited = tilewright("generate", "-q")
    assert (edited.code, edited.out, "edited by hand" in edited.err) == (1, "", True)
    drift = tilewright("check", "-q")
    assert (drift.code, source.name in drift.out) == (1, True)


@pytest.mark.parametrize(("words", "level"), [(["-v"], logging.INFO), (["-vv"], logging.DEBUG), ([], None)])
def test_v_logs(
    words: list[str], level: int | None, project: Path, tilewright: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = logging.getLogger("tilewright")
    before = (log.level, [*log.handlers])
    actual: list[int] = []
    monkeypatch.setattr("tilewright_generator.cli.list.common.note", lambda text: actual.append(log.level))
    original = import_module("tilewright_generator.cli.common").read

    def read(*arguments: object) -> object:
        actual.append(log.level)
        log.debug("deep")
        log.info("high")
        return original(*arguments)

    monkeypatch.setattr("tilewright_generator.cli.common.read", read)
    said = tilewright("list", *words)
    assert said.code == 0
    assert actual == [before[0] if level is None else level]
    assert ("INFO: high" in said.err) is (level is not None)
    assert ("DEBUG: deep" in said.err) is (level == logging.DEBUG)
    assert (log.level, log.handlers) == before, "the next command in this process begins afresh"


def test_q_and_v_exclude_each_other(project: Path, tilewright: Command) -> None:
    for words in (["-q", "list", "-v"], ["-v", "list", "-q"], ["list", "-qv"]):
        assert tilewright(*words) == (2, "", "Error: -q and -v exclude each other; give one of them\n")


def test_outside_of_a_command_nothing_is_quiet() -> None:
    assert not verbosity.quiet()


@pytest.mark.parametrize(
    ("line", "found"), [("tilewright bui", "build"), ("tilewright build --str", "--strict")]
)
def test_a_shell_completes(line: str, found: str) -> None:
    """As docs/commands.md says to set up: the shell asks the program itself."""
    answer = run_in_a_process(
        _TILEWRIGHT_COMPLETE="bash_complete", COMP_WORDS=line, COMP_CWORD=str(line.count(" "))
    )
    assert (answer.code, answer.out) == (0, f"plain,{found}\n")
    script = run_in_a_process(_TILEWRIGHT_COMPLETE="zsh_source")
    assert "#compdef tilewright" in script.out


LEAVES = {name: command for name, command in COMMANDS.items() if not isinstance(command, click.Group)}


@pytest.mark.parametrize("name", LEAVES)
def test_every_command_takes_json_in_the_same_words(name: str) -> None:
    (option,) = [parameter for parameter in LEAVES[name].params if "--json" in parameter.opts]
    assert isinstance(option, click.Option)
    assert option.is_flag
    assert option.help == "Print the answer as JSON; stdout has nothing else."


TUNED = "tuned/nvidia_h200/quantize.json"


@pytest.mark.parametrize(
    "words",
    [
        "generate --dry-run", "check sm110_blockscaled_gemm", "list sm110_blockscaled_gemm", "explain gemm",
        "explain --problem quantize nvfp4 m=16 k=4096 --device h200", "schema --check", "schema gemm --print",
        "status", "status --check", "cache --cache CACHE", "doctor --device h200",
        "toolchain", "build sm110_blockscaled_gemm --dry-run --cache CACHE",
        "tune --dry-run --device h200 -s 16x4096x4096", f"tune --merge {TUNED} --out CACHE/tuned",
        "bench compare schedule=pingpong schedule=cooperative --family gemm --dry-run -s 1x64x64",
        "run gemm -m 16 -n 4096 -k 4096",
    ],
)  # fmt: skip
def test_json_is_all_that_is_printed(
    words: str, tilewright: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr("tilewright_generator.cli.running.missing", lambda: "there is no GPU here")
    actual = tilewright(*words.replace("CACHE", str(tmp_path / "cache")).split(), "--json")
    assert actual.code in (0, 1), actual.err
    assert json.loads(actual.out)


def test_what_status_and_cache_answer(
    tilewright: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    answer = json.loads(tilewright("status", "--json").out)
    assert answer["faults"] == []
    assert {"name", "compiled", "run"} <= answer["modules"]["sm90_gemm_lean"][0].keys()
    answer = json.loads(tilewright("cache", "--json", "--cache", tmp_path / "none").out)
    assert (answer["removed"], answer["not_needed"]) == (False, [])


@pytest.mark.parametrize(
    "words",
    [
        "list", "list --long", "explain gemm", "explain blockscaled_gemm", "explain quantize",
        "explain tile=128x256x64", "explain gemm_sm90_bf16_bf16_f32_bf16_tn_128x256x64_lean_coop",
        "explain gemm arch=sm_90a a=bf16 b=bf16 d=bf16 tile=256x256x64", "explain operand_layout",
        "check", "cache --cache CACHE", "explain --help", "tune --help",
    ],
)  # fmt: skip
def test_what_is_printed_fits_80_columns(
    words: str, tilewright: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But for what a long name alone takes there."""
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr("shutil.get_terminal_size", lambda *_: os.terminal_size((80, 24)))
    actual = tilewright(*words.replace("CACHE", str(tmp_path / "none")).split())
    assert actual.code in (0, 1), actual.err
    assert actual.out
    for line in actual.out.splitlines():
        assert len(line) <= 80 or (len(line.split()) <= 2 and max(map(len, line.split())) > 70), line
