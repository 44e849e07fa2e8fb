"""A call builds a kernel of the host's compiler as it builds one of nvcc's, and runs it on CPU tensors."""

from __future__ import annotations

import hashlib
from pathlib import Path

import jinja2
import pytest
import torch
from host_modules import HOST_TRANSPOSE_FP8_ROWS, ROOT, write_table

import tilewright
from tilewright import context as contexts
from tilewright.architectures.device import H200
from tilewright.context import Context
from tilewright.libraries.registry import Registry


def test_the_first_call_builds_a_host_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TILEWRIGHT_JIT", "1")
    text = (ROOT / "tests/runtime/host_transpose_fp8_kernels.cc").read_bytes()
    (row,) = HOST_TRANSPOSE_FP8_ROWS
    source = f"{row['name']}.cpp"
    made = {"source": source, "compiler": "host", "sha256": hashlib.sha256(text).hexdigest()}
    table = write_table(tmp_path / "generated", "transposes", [{**row, **made}], "transpose_fp8")
    (table.parent / source).write_bytes(text)
    template = jinja2.Template((ROOT / "templates/table.cc.j2").read_text(encoding="utf-8"))
    rendered = template.render(
        spec="specs/transposes.yaml",
        module="transposes",
        family="transpose_fp8",
        kernels=[row["name"]],
        hosts=(),
    )
    (table.parent / "table.cc").write_text(rendered, encoding="utf-8")
    x = torch.randn(37, 24, generator=torch.Generator().manual_seed(0)).to(torch.float8_e4m3fn)
    with contexts.use(Context(Registry(tmp_path / "generated"), described=H200)):
        out = tilewright.transpose_fp8(x)
    assert torch.equal(out.view(torch.uint8), x.T.contiguous().view(torch.uint8))
    (library,) = (tmp_path / "cache").glob("libraries/transposes/*/transposes.so")
    assert b"libcudart" not in library.read_bytes()
