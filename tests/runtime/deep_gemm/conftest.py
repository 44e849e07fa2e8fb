"""What tests of DeepGEMM's functions share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from block_scaled_operands import MODULES
from host_modules import build_host_library, host_context, write_table
from host_programs import FOLDER
from packed_operands import Call

import tilewright
from tilewright import context as contexts
from tilewright.architectures.device import B200, RTX_PRO_6000
from tilewright.calls import fast_path
from tilewright.compat import deep_gemm
from tilewright.compat.deep_gemm import block_scaled
from tilewright.context import Context


@pytest.fixture
def sm120(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Context]:
    """A described RTX PRO 6000, for which nothing is built."""
    monkeypatch.setenv("TILEWRIGHT_JIT", "0")
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda *device: RTX_PRO_6000.capability)
    with contexts.use(Context(described=RTX_PRO_6000)) as context:
        yield context


@pytest.fixture
def alignment() -> Iterator[None]:
    yield
    deep_gemm.set_mk_alignment_for_contiguous_layout(128)


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> Call:
    call = Call()
    for name in ("scaled_gemm", "grouped_gemm_contiguous", "grouped_gemm_masked", "grouped_gemm_k"):
        monkeypatch.setattr(tilewright, name, call)
    monkeypatch.setattr(fast_path, "keep", lambda *_, **__: None)  # nothing is launched
    # As on GPUs of 12.x: host kernels that lay scales out count as Hopper's.
    monkeypatch.setattr(block_scaled, "needed", lambda *_, **__: False)
    return call


@pytest.fixture(scope="module")
def libraries() -> dict[str, Path]:
    return {name: build_host_library(FOLDER, *module) for name, module in MODULES.items()}


@pytest.fixture
def b200(libraries: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Context]:
    for name, (family, rows, _) in MODULES.items():
        write_table(tmp_path, name, rows, family)
    deep_gemm.forget_scales()
    yield from host_context(tmp_path, libraries, monkeypatch, device=B200)
    deep_gemm.forget_scales()
