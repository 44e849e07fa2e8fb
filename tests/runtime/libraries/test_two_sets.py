"""Two kernel sets in one process: an op takes kernels of both, whichever way it is called."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from host_modules import HOST_ROWS, write_module
from host_programs import FOLDER, host_compiler

import tilewright
import tilewright.torch_ops
from tilewright import context as contexts
from tilewright.architectures.device import H200
from tilewright.compile.building import build
from tilewright.compile.store import Store
from tilewright.context import Context
from tilewright.libraries.registry import Registry

MODULE = "products"
BY_SET = {"ours": "host_bf16_tn", "theirs": "host_s8_tn"}


@pytest.fixture
def both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Context]:
    """Each set has a module of the same name with one kernel, and a folder of libraries."""
    host_compiler()
    monkeypatch.setenv("TILEWRIGHT_TRUST_CACHE", "1")  # a checkout may be a folder that a group writes to
    monkeypatch.setenv("TILEWRIGHT_JIT", "0")
    for name, kernel in BY_SET.items():
        rows = [row for row in HOST_ROWS if row["name"] == kernel]
        table = write_module(tmp_path / name, MODULE, "gemm", rows, "host_kernels.cc")
        built = build([table], store=Store(FOLDER / "cache"), destination=Store(tmp_path / f"{name}-built"))
        built.raise_for_failures()
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "empty"))
    libraries = (tmp_path / f"{name}-built" for name in BY_SET)
    monkeypatch.setenv("TILEWRIGHT_LIBRARIES", ":".join(map(str, libraries)))
    with contexts.use(Context(Registry([tmp_path / name for name in BY_SET]), H200)) as context:
        yield context


def operands(dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    a, b = (torch.randint(-4, 5, shape, generator=generator).to(dtype) for shape in ((16, 32), (32, 32)))
    return a, b.t()


@pytest.mark.parametrize(
    ("name", "dtype", "result"),
    [("ours", torch.bfloat16, torch.bfloat16), ("theirs", torch.int8, torch.int32)],
)
def test_calls_take_the_kernel_of_either_set(
    both: Context, name: str, dtype: torch.dtype, result: torch.dtype
) -> None:
    a, b = operands(dtype)
    expected = (a.double() @ b.double()).to(result)
    for call in (
        tilewright.gemm,
        torch.ops.tilewright.gemm,
        tilewright.plan(tilewright.gemm, a, b),
        torch.compile(tilewright.gemm, backend="eager", fullgraph=True),
    ):
        assert torch.equal(call(a, b), expected)
    record = both.registry.record(BY_SET[name])
    assert Path(both.registry.set_of(both.registry.table_of(record.name))).name == name
    assert both.registry.library(record).kernels == {record.name}
