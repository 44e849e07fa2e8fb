"""`tilewright config`."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from tilewright.base import paths
from tilewright_generator import cli
from tilewright_generator.cli.config import command

KERNEL = "gemm_sm90_bf16_bf16_f32_bf16_tn_128x128x64_lean_coop"


def options(*words: str) -> list[str]:
    result = CliRunner().invoke(command, words)
    assert result.exit_code == 0, result.output
    return shlex.split(result.stdout)


def test_folders_that_are_there() -> None:
    (include,) = options("--includes")
    assert (Path(include.removeprefix("-I")) / "tilewright/library.hpp").is_file()
    assert options("--cflags") == ["-std=c++17", include]
    defined = dict(word.removeprefix("-D").split("=") for word in options("--cmake"))
    assert (Path(defined["tilewright_DIR"]) / "tilewright-config.cmake").is_file()
    assert Path(defined["TILEWRIGHT_TVM_FFI"]).is_file()
    folder = next(word.removeprefix("-L") for word in options("--ldflags") if word.startswith("-L"))
    assert (Path(folder) / "libtvm_ffi.so").is_file()


def test_options_of_nvcc_are_those_of_a_build() -> None:
    flags = options("--nvccflags", KERNEL)
    assert {"--expt-relaxed-constexpr", "-DNDEBUG", "-gencode=arch=compute_90a,code=sm_90a"} <= {*flags}
    assert "-std=c++14" in flags  # of the kernel's row
    assert f"-I{paths.include_dir()}" in flags


def test_several_at_once() -> None:
    answer = json.loads(CliRunner().invoke(command, ["--includes", "--cflags", "--json"]).stdout)
    assert answer == {"includes": f"-I{paths.include_dir()}", "cflags": f"-std=c++17 -I{paths.include_dir()}"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "expected one of --includes"),
        (["--nvccflags", "gemm_nope"], "no table lists a kernel named gemm_nope"),
        (
            ["--library", "sm90_gemm_lean"],
            "no library of sm90_gemm_lean is built; `tilewright build sm90_gemm_lean --shipped` builds all",
        ),
        (["--library", "sm90_gemm_leen"], "; did you mean 'sm90_gemm_lean'?"),
    ],
)
def test_usage(
    words: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert cli.invoke(["config", *words]) == 2
    assert said in capsys.readouterr().err
