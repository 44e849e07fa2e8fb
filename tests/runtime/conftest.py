"""Contexts in which ops run kernels of the host, built by g++ and loaded for real."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from grouped_rows import HOST_GROUPED_ROWS, HOST_WORDS_ROWS
from host_modules import (
    HOST_BLOCKSCALED_ROWS,
    HOST_GROUPS_ROWS,
    HOST_MQA_ROWS,
    HOST_REDUCED_ROWS,
    HOST_ROWS,
    HOST_SCALE_COLUMNS_ROWS,
    HOST_TRANSPOSE_FP8_ROWS,
    Built,
    build_host_library,
    host_context,
    make_blockscaled_row,
    make_row,
    write_table,
)
from host_programs import FOLDER
from mixed_rows import HOST_EXPERTS_ROWS, HOST_FP8_EXPERTS_ROWS, HOST_FP8_ROWS, HOST_MIXED_ROWS
from prenorm_rows import HOST_PRENORM_ROWS
from quantize_rows import HOST_QUANTIZE_ROWS

from tilewright.architectures.device import B300, H200, RTX_PRO_6000, DeviceProperties
from tilewright.context import Context
from tilewright.declarations.table import KernelRecord
from tilewright.libraries.registry import Registry

_HAS_TORCH = find_spec("torch") is not None
_IMPORTS_TORCH = re.compile(r"^(?:import torch\b|from torch\b)", re.MULTILINE)


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Without torch, leaves out the modules that import it, and folders whose conftest.py does."""
    source = collection_path / "conftest.py" if collection_path.is_dir() else collection_path
    if _HAS_TORCH or source.suffix != ".py" or not source.is_file():
        return None
    return True if _IMPORTS_TORCH.search(source.read_text(encoding="utf-8")) else None


def pytest_report_header() -> str | None:
    return (
        None if _HAS_TORCH else "tests/runtime: torch is not installed; modules that import it are left out"
    )


@pytest.fixture(autouse=True)
def no_tuned_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """What this machine's user has tuned is nothing to a test."""
    monkeypatch.setenv("TILEWRIGHT_TUNED", "")


@pytest.fixture(scope="session")
def committed() -> Registry:
    """The committed kernels, of which none is built."""
    return Registry(libraries=lambda module: [])


@pytest.fixture(scope="session")
def row() -> Callable[..., dict[str, Any]]:
    return make_row


@pytest.fixture(scope="session")
def record() -> Callable[..., KernelRecord]:
    return lambda name, **fields: KernelRecord.parse(make_row(name, **fields))


@pytest.fixture(scope="session")
def table() -> Callable[..., Path]:
    return write_table


@pytest.fixture(scope="session")
def built() -> type[Built]:
    return Built


@pytest.fixture(scope="session")
def blockscaled_row() -> Callable[..., dict[str, Any]]:
    return make_blockscaled_row


@pytest.fixture(scope="session")
def blockscaled_record() -> Callable[..., KernelRecord]:
    return lambda name, **fields: KernelRecord.parse(make_blockscaled_row(name, **fields))


class HostModule(NamedTuple):
    """A module of kernels of the host."""

    family: str
    rows: list[dict[str, Any]]  # of its table
    source: str  # of its kernels


MODULES = {
    "host_gemm": HostModule("gemm", HOST_ROWS, "host_kernels.cc"),
    "host_blockscaled": HostModule("blockscaled_gemm", HOST_BLOCKSCALED_ROWS, "host_blockscaled_kernels.cc"),
    "host_quantize": HostModule("quantize", HOST_QUANTIZE_ROWS, "host_quantize_kernels.cc"),
    "host_grouped_gemm": HostModule("grouped_gemm", HOST_GROUPED_ROWS, "host_grouped_kernels.cc"),
    "host_words": HostModule("grouped_gemm", HOST_WORDS_ROWS, "host_grouped_kernels.cc"),
    "host_reduced": HostModule("reduced_gemm", HOST_REDUCED_ROWS, "host_reduced_kernels.cc"),
    "host_scale_columns": HostModule(
        "scale_columns", HOST_SCALE_COLUMNS_ROWS, "host_scale_columns_kernels.cc"
    ),
    "host_transpose_fp8": HostModule(
        "transpose_fp8", HOST_TRANSPOSE_FP8_ROWS, "host_transpose_fp8_kernels.cc"
    ),
    "host_prenorm": HostModule("hc_prenorm", HOST_PRENORM_ROWS, "host_prenorm_kernels.cc"),
    "host_mixed": HostModule("mixed_gemm", HOST_MIXED_ROWS, "host_mixed_kernels.cc"),
    "host_mixed_fp8": HostModule("mixed_fp8_gemm", HOST_FP8_ROWS, "host_mixed_fp8_kernels.cc"),
    "host_experts": HostModule("mixed_grouped_gemm", HOST_EXPERTS_ROWS, "host_mixed_grouped_kernels.cc"),
    "host_groups": HostModule(
        "blockscaled_grouped_gemm", HOST_GROUPS_ROWS, "host_blockscaled_grouped_kernels.cc"
    ),
    "host_fp8_experts": HostModule(
        "mixed_fp8_grouped_gemm", HOST_FP8_EXPERTS_ROWS, "host_mixed_fp8_grouped_kernels.cc"
    ),
    "host_mqa_logits": HostModule("mqa_logits", HOST_MQA_ROWS, "host_mqa_logits_kernels.cc"),
}
PRODUCTS = ("host_gemm", "host_grouped_gemm", "host_reduced", "host_scale_columns", "host_transpose_fp8")


@pytest.fixture(scope="session")
def host_libraries() -> Callable[[str], Path]:
    """The library of a module, which is built when a test of any process first asks for it."""

    @cache
    def library(module: str) -> Path:
        family, rows, source = MODULES[module]
        return build_host_library(FOLDER, family, rows, source)

    return library


@pytest.fixture(scope="session")
def host_library(host_libraries: Callable[[str], Path]) -> Path:
    return host_libraries("host_gemm")


@pytest.fixture(scope="session")
def host_generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("generated")
    for name, (family, rows, _) in MODULES.items():
        write_table(folder, name, rows, family)
    return folder


def _context(modules: Sequence[str], lacking: tuple[str, ...] = (), device: DeviceProperties = H200) -> Any:
    """A fixture: a context with the kernels of some modules, but those that are `lacking`, as if on a GPU."""

    @pytest.fixture
    def context(
        host_libraries: Callable[[str], Path], host_generated: Path, monkeypatch: pytest.MonkeyPatch
    ) -> Iterator[Context]:
        libraries = {module: host_libraries(module) for module in modules}
        of_all = libraries if len(modules) > 1 else libraries[modules[0]]
        yield from host_context(host_generated, of_all, monkeypatch, lacking, device)

    return context


host = _context(["host_gemm"], lacking=("host_absent",))
blackwell = _context(["host_blockscaled"], lacking=("host_nvfp4_absent",), device=B300)
blackwell_groups = _context(["host_groups"], device=B300)
hopper = _context(["host_quantize"], lacking=("host_to_nvfp4_f16_absent",))
scale_columns_host = _context(["host_scale_columns"])
transpose_fp8_host = _context(["host_transpose_fp8"])
grouped = _context(["host_grouped_gemm"])
grouped_words = _context(["host_words"], device=RTX_PRO_6000)
prenorm = _context(["host_prenorm"])
mixed_host = _context(["host_mixed"])
fp8_host = _context(["host_mixed_fp8"])
experts_host = _context(["host_experts"])
fp8_experts_host = _context(["host_fp8_experts"])
packed_hosts = _context(["host_mixed", "host_mixed_fp8", "host_experts", "host_fp8_experts"])
mqa_host = _context(["host_mqa_logits"])
all_hosts = _context(PRODUCTS, lacking=("host_absent",))
