"""A wheel of built kernels is installed, and an op runs one of them where no compiler is."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from click.testing import CliRunner
from host_modules import HOST_TRANSPOSE_FP8_ROWS, ROOT, write_module
from host_programs import FOLDER, host_compiler

from tilewright_generator.cli.wheel import command

CALL = """
import torch, tilewright
from tilewright import context
from tilewright.architectures.device import H200
x = torch.arange(64).reshape(4, 16).to(torch.float8_e4m3fn)
with context.use(context.Context(described=H200)) as current:
    out = tilewright.transpose_fp8(x, tactic="host_transpose_fp8")
    table = current.registry.table_of("host_transpose_fp8")
    print(torch.equal(out.view(torch.uint8), x.T.contiguous().view(torch.uint8)))
    print(current.registry.set_of(table), current.registry.library(table["host_transpose_fp8"]).path)
"""


def test_a_call_without_a_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    host_compiler()
    write_module(
        tmp_path / "acme/generated", "transposes", "transpose_fp8", HOST_TRANSPOSE_FP8_ROWS,
        "host_transpose_fp8_kernels.cc",
    )  # fmt: skip
    monkeypatch.setenv("TILEWRIGHT_TRUST_CACHE", "1")  # a checkout may be a folder that a group writes to
    words = ["transposes", "--root", tmp_path / "acme", "--cache", FOLDER / "cache", "-o", tmp_path]
    result = CliRunner().invoke(command, [str(word) for word in words])
    assert result.exit_code == 0, result.output
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "site")
    environment = {
        "PYTHONPATH": os.pathsep.join(map(str, (tmp_path / "site", ROOT / "generator", ROOT / "runtime"))),
        "PATH": "/nonexistent",
        "TILEWRIGHT_JIT": "0",
        "TILEWRIGHT_CACHE": str(tmp_path / "no-cache"),
    }
    done = subprocess.run(
        [sys.executable, "-c", CALL],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    right, kernel_set, library = done.stdout.split()
    assert (right, kernel_set) == ("True", "acme_kernels")
    assert Path(library).is_relative_to(tmp_path / "site/tilewright_kernels/acme_kernels/libraries")
    assert not (tmp_path / "no-cache").exists()
