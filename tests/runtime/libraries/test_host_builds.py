"""A call builds a kernel of the host's compiler as it builds one of nvcc's, and runs it on CPU tensors."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from host_modules import HOST_TRANSPOSE_FP8_ROWS, write_module

import tilewright
from tilewright import context as contexts
from tilewright.architectures.device import H200
from tilewright.context import Context
from tilewright.libraries.registry import Registry


def test_the_first_call_builds_a_host_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TILEWRIGHT_JIT", "1")
    write_module(
        tmp_path / "generated",
        "transposes",
        "transpose_fp8",
        HOST_TRANSPOSE_FP8_ROWS,
        "host_transpose_fp8_kernels.cc",
    )
    x = torch.randn(37, 24, generator=torch.Generator().manual_seed(0)).to(torch.float8_e4m3fn)
    with contexts.use(Context(Registry(tmp_path / "generated"), described=H200)):
        out = tilewright.transpose_fp8(x)
    assert torch.equal(out.view(torch.uint8), x.T.contiguous().view(torch.uint8))
    (library,) = (tmp_path / "cache").glob("libraries/transposes/*/transposes.so")
    assert b"libcudart" not in library.read_bytes()
