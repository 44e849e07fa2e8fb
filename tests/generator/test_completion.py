"""What a shell completes besides commands and options, asked of the shells themselves."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import ROOT, run_in_a_process

TILE = "gemm_sm90_bf16_bf16_f32_bf16_tn_128x104x64_lean_pingpong"


def program(tmp_path: Path) -> dict[str, str]:
    """An environment in which `tilewright` is this one."""
    script = tmp_path / "tilewright"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -m tilewright_generator "$@"\n')
    script.chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    return {
        **os.environ,
        "PATH": path,
        "PYTHONPATH": f"{ROOT}/generator:{ROOT}/runtime",
        "HOME": str(tmp_path),
    }


def run(command: list[str], tmp_path: Path) -> subprocess.CompletedProcess[str]:
    environment = program(tmp_path)
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment, check=True)


def bash_completes(line: str, tmp_path: Path) -> list[str]:
    """The words that bash would insert for the last one, which it divides at `=`."""
    words = line.replace("=", " = ").split(" ")
    words = [word for word in words[:-1] if word] + words[-1:]
    if words[-1] == "" and words[-2] == "=":
        words.pop()  # bash's word is the `=` then
    quoted = " ".join(map(shlex.quote, words))
    script = (
        'compopt() { echo "$1 $2"; }; eval "$(_TILEWRIGHT_COMPLETE=bash_source tilewright)"; '
        f"COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; "
        '_tilewright_completion tilewright; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = run(["bash", "--norc", "-c", script], tmp_path)
    assert done.stderr == ""
    return done.stdout.split("\n")[:-1]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("tilewright build sm90_gemm_l", ["sm90_gemm_lean"]),
        ("tilewright list sm90_gemm_s", ["sm90_gemm_stream"]),
        ("tilewright explain accum", ["accumulator_registers"]),
        (f"tilewright explain {TILE}", [TILE, f"{TILE}_swap"]),
        ("tilewright explain gemm mainl", ["-o nospace", "mainloop="]),
        ("tilewright explain gemm mainloop=", ["cutlass", "lean", "stream", "mma", "cute_dsl", "tcgen05"]),
        ("tilewright explain gemm mainloop=lean sched", ["-o nospace", "schedule=", "scheduler="]),
        ("tilewright explain gemm mainloop=lean schedule=p", ["pingpong"]),
        ("tilewright list --filter mainloop=st", ["stream"]),
        ("tilewright list --set sh", ["shipped"]),
        ("tilewright build sm90_gemm_lean --filter tile=192x112x", ["192x112x64", "192x112x128"]),
        ("tilewright check --filter ~mainl", ["-o nospace", "~mainloop="]),
        (f"tilewright run gemm --kernel {TILE}", [TILE, f"{TILE}_swap"]),
        ("tilewright schema scale", ["scale_columns"]),
        ("tilewright init --spec sm90_gemm_t", ["sm90_gemm_tf32_s8"]),
        ("tilewright init --family hc", ["hc_prenorm"]),
        ("tilewright wheel sm90_gemm_l", ["sm90_gemm_lean"]),
        ("tilewright wheel sm90_gemm_lean --arch sm_103", ["sm_103a"]),
        ("tilewright wheel sm90_gemm_lean --filter mainloop=st", ["stream"]),
        ("tilewright config --library sm90_gemm_l", ["sm90_gemm_lean"]),
        (f"tilewright config --nvccflags {TILE}", [TILE, f"{TILE}_swap"]),
        ("tilewright choices hc", ["hc_prenorm"]),
        ("tilewright choices gemm bf1", ["bf16"]),
        ("tilewright choices gemm bf16 layout=t", ["tn", "tt"]),
        ("tilewright explain --problem gemm bat", ["-o nospace", "batch="]),
        ("tilewright explain --problem gemm bf16 layout=n", ["nn", "nt"]),
    ],
)
def test_bash_completes(line: str, expected: list[str], tmp_path: Path) -> None:
    words = bash_completes(line, tmp_path)
    if "-o nospace" in words:  # it is called for each
        words = list(dict.fromkeys(words))
    assert words == expected


@pytest.mark.parametrize("shell", ["zsh", "fish"])
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["build", "sm90_gemm_l"], "sm90_gemm_lean"),
        (["explain", "gemm", "mainloop=l"], "mainloop=lean"),
        (["list", "--filter", "mainloop=st"], "mainloop=stream"),
    ],
)
def test_zsh_and_fish_are_given_whole_words(shell: str, words: list[str], expected: str) -> None:
    if shell == "zsh":
        position = {"COMP_WORDS": " ".join(["tilewright", *words]), "COMP_CWORD": str(len(words))}
    else:
        position = {"COMP_WORDS": " ".join(["tilewright", *words]), "COMP_CWORD": words[-1]}
    answer = run_in_a_process(_TILEWRIGHT_COMPLETE=f"{shell}_complete", **position)
    lines = answer.out.splitlines()
    assert (lines[1] if shell == "zsh" else lines[0].removeprefix("plain,")) == expected


@pytest.mark.skipif(shutil.which("fish") is None, reason="needs fish")
def test_fish_completes(tmp_path: Path) -> None:
    asked = "complete -C 'tilewright explain gemm mainloop=l'"
    script = f"_TILEWRIGHT_COMPLETE=fish_source tilewright | source; {asked}"
    done = run(["fish", "--no-config", "-c", script], tmp_path)
    assert done.stdout.split() == ["mainloop=lean"]


def test_it_needs_no_torch_and_survives_a_broken_table(tmp_path: Path) -> None:
    (tmp_path / "specs").mkdir()
    (tmp_path / "specs" / "mine.yaml").write_text("")
    (tmp_path / "generated" / "mine").mkdir(parents=True)
    (tmp_path / "generated" / "mine" / "table.json").write_text("<<<<<<<")
    for line, expected in (
        ("tilewright build mi", "plain,mine"),
        ("tilewright list --filter tile=1", ""),
        ("tilewright run gemm --kernel x", ""),
    ):
        answer = run_in_a_process(
            cwd=tmp_path,
            _TILEWRIGHT_COMPLETE="bash_complete",
            COMP_WORDS=line,
            COMP_CWORD=str(line.count(" ")),
        )
        assert (answer.code, answer.out.strip(), answer.err) == (0, expected, "")
    code = (
        "import os, sys; os.environ.update(_TILEWRIGHT_COMPLETE='bash_complete', COMP_CWORD='3', "
        "COMP_WORDS='tilewright list --filter tile=192x'); from tilewright_generator.cli import main\n"
        "try: main()\nexcept SystemExit: assert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "192x112x64" in done.stdout
