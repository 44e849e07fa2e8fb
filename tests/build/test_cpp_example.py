"""examples/cpp: its commands as its README gives them, up to a GPU that is not here."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from host_programs import host_compiler

from tilewright.compile.nvcc.toolchain import NvccToolchain

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples/cpp"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the example, with `tilewright` on PATH."""
    folder = tmp_path_factory.mktemp("example")
    for path in EXAMPLE.iterdir():
        if path.is_file():
            shutil.copy(path, folder)
    (folder / "bin").mkdir()
    script = folder / "bin/tilewright"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -m tilewright_generator "$@"\n')
    script.chmod(0o755)
    return folder


def shell(folder: Path, lines: str) -> str:
    script = f"set -e\nPATH={folder / 'bin'}:$PATH\nexport TILEWRIGHT_TUNED= TILEWRIGHT_JIT=0\n{lines}"
    done = subprocess.run(["bash", "-c", script], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def blocks() -> list[str]:
    return re.findall(r"```sh\n(.*?)```", (EXAMPLE / "README.md").read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.compile
def test_the_commands_of_its_page(folder: Path, toolchain: NvccToolchain) -> None:
    host_compiler()
    steps, by_hand = blocks()
    prepare, by_cmake = steps.split("cmake -S", 1)
    run = by_cmake.splitlines()[-1]
    shell(folder, prepare)
    ways = [by_hand]
    if shutil.which("cmake"):
        ways.append(f"cmake -S{by_cmake.removesuffix(run)}")
    cuda = " ".join(f"-I{path}" for path in toolchain.runtime_includes)
    runtime = f"{' '.join(toolchain.link_options)} -lrt -lpthread"
    ways.append(by_hand.replace("gemm.cpp", f"-DEXAMPLE_WITH_CUDA {cuda} gemm.cpp").rstrip() + f" {runtime}")
    for way in ways:
        shell(folder, way)
        first, second, last = shell(folder, run).splitlines()
        assert re.fullmatch(r"m = 64: gemm_sm90_bf16_bf16_f32_bf16_tn_\w+ of sm90_gemm_lean", first)
        assert re.fullmatch(r"takes the problem, with \d+ bytes of workspace", second)
        assert re.fullmatch(
            r"(no GPU|compiled without CUDA): nothing was launched|launched: 0 of \d+ .*", last
        )


def test_a_problem_outside_of_its_header(folder: Path) -> None:
    """Nothing is loaded for it, so nothing has to be built."""
    compiler = host_compiler()
    shell(folder, blocks()[0].split("tilewright build")[0])
    shell(folder, blocks()[1].replace("g++", compiler))
    done = subprocess.run(
        [folder / "build/gemm", "none.so", "65"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (1, "qkv_proj.hpp has no choice for m = 65\n")
