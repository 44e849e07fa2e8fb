"""A few of the fuzzer's inputs, and whether it sees what it looks for."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import fuzz
import fuzz_cases
import fuzz_changes
import fuzz_project
import fuzz_shares
import pytest


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a template, whose cache no variable of this process names."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("TILEWRIGHT_")]:
            patch.delenv(name)
        folder = tmp_path_factory.mktemp("fuzz")
        fuzz_project.make(folder / "template")
        yield folder


def test_inputs_are_answered(place: Path) -> None:
    for number in range(40):
        case, ended = fuzz.run_case(place, 2026, number)
        assert not ended.fault, f"{number}: {case}\n{ended.printed}"


def test_the_program_begins() -> None:
    """It imports every command before it forks, also one of two words."""
    command = [sys.executable, fuzz.__file__, "--seed", "2026", "--case", "1"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


SOURCES = (
    "generated/hopper/manifest.txt",
    "generated/hopper/table.cc",
    "cache/CACHEDIR.TAG",
    "pyproject.toml",
)


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize("kind", [os.mkfifo, Path.mkdir])
@pytest.mark.parametrize(
    "command",
    [["check", "--diff"], ["generate"], ["list"], ["status"], ["build", "--dry-run", "--cache", "cache"]],
    ids=" ".join,
)
def test_no_pipe_and_no_folder_is_read(
    place: Path, name: str, kind: Callable[[Path], None], command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def draw(chance: random.Random, project: Path) -> fuzz_cases.Case:
        (project / name).unlink()
        kind(project / name)
        return fuzz_cases.Case("", "", command)

    monkeypatch.setattr(fuzz_cases, "draw", draw)
    _, ended = fuzz.run_case(place, 1, 1)
    assert not ended.fault, ended.printed


def test_an_input_follows_from_seed_and_number(place: Path) -> None:
    actual = []
    for name in ("one", "two"):
        fuzz_project.copy(place / "template", place / name)
        chance = random.Random("1/2")
        actual.append([fuzz_cases.draw(chance, place / name) for _ in range(20)])
        shutil.rmtree(place / name)
    assert actual[0] == actual[1]


def _raise() -> int:
    raise ValueError("unforeseen")


def _hang() -> int:
    time.sleep(3600)
    return 0


def _internal() -> int:
    print("Error: internal error: KeyError: 'x'")
    return 2


def _help() -> int:
    print("Exit codes: 0 fine, 1 a drift, 2 usage, 3 an internal error.")
    return 0


@pytest.mark.parametrize(
    ("work", "fault"),
    [
        (lambda: 0, ""),
        (lambda: 2, ""),
        (lambda: 3, "exit code 3"),
        (_internal, "prints 'Error: internal error'"),
        (_help, ""),
        (_raise, "exit code 99"),
        (lambda: os.kill(os.getpid(), signal.SIGKILL) or 0, "ended by SIGKILL"),
        (lambda: len(bytearray(1 << 40)), "exit code 99"),  # more memory than there may be
    ],
)
def test_what_counts_as_a_failure(work: Callable[[], int], fault: str, tmp_path: Path) -> None:
    assert fuzz.run(work, tmp_path / "printed").fault == fault


@pytest.mark.parametrize("seconds", [0.0, 0.2])  # 0: it is ended before it has printed anything
def test_a_process_that_does_not_end(seconds: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz, "WALL_SECONDS", seconds)
    assert fuzz.run(_hang, tmp_path / "printed").fault == "ended by SIGALRM"


def test_processor_time_beyond_the_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz, "CPU_SECONDS", -1)
    monkeypatch.setattr("resource.setrlimit", lambda *_: None)
    assert fuzz.run(lambda: 0, tmp_path / "printed").fault.endswith("s of processor time")


@pytest.mark.parametrize("name", ["file", "folder/new", "new"])
def test_what_is_written_outside_is_seen(place: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz_cases, "draw", lambda *_: fuzz_cases.Case("", "", ["check"]))
    monkeypatch.setattr(
        fuzz, "_command", lambda folder, case: len((folder / "../outside" / name).write_text(""))
    )
    _, ended = fuzz.run_case(place, 1, 1)
    assert ended.fault == "wrote outside of the project"


def test_the_command_line_s_own_code_3_is_seen(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tilewright_generator.cli import check  # noqa: PLC0415

    monkeypatch.setattr(check.command, "callback", lambda **_: {}["x"])
    case = fuzz_cases.Case("", "", ["check"])
    monkeypatch.setattr(fuzz_cases, "draw", lambda *_: case)
    _, ended = fuzz.run_case(place, 1, 1)
    assert (ended.fault, "internal error: KeyError" in ended.printed) == ("exit code 3", True)


@pytest.mark.parametrize(
    "word",
    [
        "/",
        "/etc/passwd",
        "--out=/",
        "../x",
        "--root=a/../..",
        "~/x",
        "--ray",
        "--ray-address=a",
        "--build",
    ],
)
def test_no_word_leads_elsewhere(word: str) -> None:
    assert not fuzz_cases.harmless(word)
    assert fuzz_cases.harmless("generated/hopper")


def test_nothing_is_compiled(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def draw(chance: random.Random, project: Path) -> fuzz_cases.Case:
        shutil.rmtree(project / "cache" / "objects")
        return fuzz_cases.Case("", "", ["build"])

    monkeypatch.setattr(fuzz_cases, "draw", draw)
    _, ended = fuzz.run_case(place, 1, 1)
    assert (ended.code, "nothing is compiled here" in ended.printed) == (1, True)


def test_large_changes_have_bounds() -> None:
    """The fuzzer itself changes what was changed before, and is not to run out of memory."""
    chance, given = random.Random(2), "a: [b, c]\n" * 300_000
    for change in fuzz_changes._LARGE:
        for _ in range(10):
            assert len(change(chance, given, fuzz_changes.WORDS)) <= 4 * fuzz_changes._LONGEST


def test_what_processes_saw_is_summed(tmp_path: Path) -> None:
    def work(share: int) -> dict[str, object]:
        return {
            "seed": 7, "inputs": 10 + share, "longest_cpu_seconds": 1.5 * share, "longest": f"case {share}",
            "exit_codes": {"0": 1, str(share): 2}, "failures": [share] * share,
        }  # fmt: skip

    assert fuzz_shares.summed(fuzz_shares.run(work, 3, tmp_path)) == {
        "seed": 7, "inputs": 33, "longest_cpu_seconds": 3.0, "longest": "case 2",
        "exit_codes": {"0": 4, "1": 2, "2": 2}, "failures": [1, 2, 2],
    }  # fmt: skip
    with pytest.raises(RuntimeError, match="has failed"):
        fuzz_shares.run(lambda _: {}[0], 2, tmp_path)


def test_changes_change(tmp_path: Path) -> None:
    chance = random.Random(1)
    assert len({fuzz_changes.text(chance, "a: [1, 2]") for _ in range(100)}) > 50
    assert len({repr(fuzz_changes.value(chance, {"a": [1, {"b": "c"}]})) for _ in range(100)}) > 50
    assert len({fuzz_changes.place(chance, tmp_path / f"{n}") for n in range(100)}) == 13
    outside = tmp_path / "outside"
    kinds = {fuzz_changes.place(chance, tmp_path / f"{n}", outside) for n in range(100, 400)}
    assert {f"a link to a {name} outside" for name in ("file", "folder", "nothing")} < kinds
    assert sys.getrecursionlimit() < 100_000
