"""What surrounds a command is at fault: stdout, the working directory, variables. No traceback, no exit 3."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import ROOT, run_in_a_process

from tilewright_generator.cli import failures

COMMANDS = [
    "--help", "list", "list --json", "check", "generate --dry-run", "status", "schema --print", "cache",
    "explain --problem gemm bf16 m=1 n=1 k=1", "tune -s 1x1x1 --dry-run --device h200",
]  # fmt: skip
_PROGRAM = "from tilewright_generator.cli import main; main()"


def process(
    words: str, stdout: int, stderr: int = subprocess.PIPE, cwd: Path = ROOT, **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", _PROGRAM, *words.split()],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": f"{ROOT}/generator:{ROOT}/runtime", **environment},
        stdout=stdout,
        stderr=stderr,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("words", COMMANDS)
def test_a_full_stdout(words: str) -> None:
    with Path("/dev/full").open("w") as full:
        done = process(words, full.fileno())
    said = "Error: cannot write to stdout: No space left on device"
    assert (done.returncode, done.stderr.splitlines()[-1]) == (2, said), done.stderr
    assert "Traceback" not in done.stderr


def test_a_full_stderr() -> None:
    """There is no place for the message, and none for a traceback."""
    with Path("/dev/full").open("w") as full:
        done = process("list none", subprocess.PIPE, full.fileno())
        assert (done.returncode, done.stdout) == (2, "")
        done = process("check", full.fileno(), full.fileno())
        assert done.returncode == 2


@pytest.mark.parametrize("words", COMMANDS)
def test_a_pipe_that_nobody_reads(words: str) -> None:
    """As a program that SIGPIPE ends: a failure to `set -o pipefail`, since not everything was done."""
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = process(words, writing)
    finally:
        os.close(writing)
    assert (done.returncode, "Traceback" in done.stderr, "rror" in done.stderr) == (141, False, False)


def test_generate_writes_also_if_nobody_reads_what_it_prints(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        assert process(f"-q init {tmp_path}", subprocess.DEVNULL).returncode == 0
        assert process(f"generate --root {tmp_path}", writing).returncode == 141
        assert process(f"check --root {tmp_path}", subprocess.DEVNULL).returncode == 0
    finally:
        os.close(writing)


@pytest.mark.parametrize("words", ["list", "check", "generate", "doctor", "build --dry-run", "schema gemm"])
def test_a_working_directory_that_is_gone(words: str, tmp_path: Path) -> None:
    (gone := tmp_path / "gone").mkdir()
    code = f"import os; os.chdir({str(gone)!r}); os.rmdir({str(gone)!r}); {_PROGRAM}"
    done = subprocess.run(
        [sys.executable, "-c", code, *words.split()],
        env={**os.environ, "PYTHONPATH": f"{ROOT}/generator:{ROOT}/runtime"},
        capture_output=True,
        text=True,
        check=False,
    )
    said = "Error: the working directory has been removed; change to another\n"
    assert (done.returncode, done.stderr) == (2, said)


@pytest.mark.parametrize("words", [{}, {"COMP_WORDS": "tilewright", "COMP_CWORD": "x"}])
def test_completion_without_a_shell(words: dict[str, str]) -> None:
    actual = run_in_a_process("doctor", _TILEWRIGHT_COMPLETE="bash_complete", **words)
    said = "Error: _TILEWRIGHT_COMPLETE is set, as by a shell that asks for completions; unset it\n"
    assert actual == (2, "", said)


def test_a_log_that_cannot_be_written() -> None:
    """Is told once, and stops nothing."""
    actual = run_in_a_process("build", "--dry-run", "sm90_gemm_lean", TILEWRIGHT_LOG="debug:/dev/full")
    assert (actual.code, actual.out != "") == (0, True)
    lines = [line for line in actual.err.splitlines() if not line.startswith("kernels of ")]
    assert lines == ["/dev/full: No space left on device; no log is kept any more"]


@pytest.mark.parametrize("words", ["init mine_rows", "new-family mine_rows", "schema --root ."])
def test_a_limit_on_the_size_of_files(words: str, tmp_path: Path) -> None:
    """As on a full disk, writing fails: the message names the file."""
    (tmp_path / "specs").mkdir()
    program = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)); {_PROGRAM}"
    done = subprocess.run(
        [sys.executable, "-B", "-c", program, *words.split()],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{ROOT}/generator:{ROOT}/runtime"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert "File too large" in done.stderr
    assert str(tmp_path) in done.stderr or "mine_rows/" in done.stderr


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "No space left on device"),
        (
            BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable"),
            "Resource temporarily unavailable",
        ),
        (MemoryError(), "there is not enough memory"),
    ],
)
def test_a_limit_of_the_machine_is_no_fault_of_ours(error: Exception, said: str) -> None:
    failure = failures.of_system(error) if isinstance(error, OSError) else failures.of_any(error)
    assert failure == (2, said)
    assert failures.of_system(OSError(errno.EINVAL, "Invalid argument")).code == 3
