"""Contexts in which ops run kernels of the host, built by g++ and loaded for real."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from grouped_rows import HOST_GROUPED_ROWS
from host_modules import (
    HOST_BLOCKSCALED_ROWS,
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
from prenorm_rows import HOST_PRENORM_ROWS
from quantize_rows import HOST_QUANTIZE_ROWS

from tilewright.context import Context
from tilewright.device import B300
from tilewright.table import KernelRecord

_NEED_TORCH = [
    "test_binding.py", "test_checks.py", "test_measuring.py", "test_blockscaled_arguments.py",
    "test_blockscaled_op.py",
    "test_blockscaled_reference.py", "test_deep_gemm.py", "test_einsum.py", "test_gemm_op.py",
    "test_grouped_gemm.py", "test_mqa_logits.py",
    "test_prenorm_op.py", "test_prepared.py", "test_quantize_arguments.py",
    "test_quantize_op.py", "test_quantize_reference.py", "test_quantize_torch.py", "test_scale_factors.py",
    "test_torch_compiled.py", "test_torch_ops.py",
]  # fmt: skip
_HAS_TORCH = find_spec("torch") is not None
collect_ignore = [] if _HAS_TORCH else _NEED_TORCH


def pytest_report_header() -> str | None:
    return (
        None if _HAS_TORCH else f"tests/runtime: torch is not installed, left out: {', '.join(_NEED_TORCH)}"
    )


@pytest.fixture(autouse=True)
def no_tuned_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """What this machine's user has tuned is nothing to a test."""
    monkeypatch.setenv("TILEWRIGHT_TUNED", "")


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


@pytest.fixture(scope="session")
def host_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_host_library(tmp_path_factory.mktemp("host_gemm"), "gemm", HOST_ROWS, "host_kernels.cc")


@pytest.fixture(scope="session")
def host_blockscaled_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("host_blockscaled")
    return build_host_library(
        folder, "blockscaled_gemm", HOST_BLOCKSCALED_ROWS, "host_blockscaled_kernels.cc"
    )


@pytest.fixture(scope="session")
def host_quantize_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("host_quantize")
    rows = [row for row in HOST_QUANTIZE_ROWS if not row["name"].endswith("_absent")]
    return build_host_library(folder, "quantize", rows, "host_quantize_kernels.cc")


@pytest.fixture(scope="session")
def host_prenorm_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("host_prenorm")
    return build_host_library(folder, "hc_prenorm", HOST_PRENORM_ROWS, "host_prenorm_kernels.cc")


@pytest.fixture(scope="session")
def host_generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("generated")
    write_table(folder, "host_gemm", HOST_ROWS)
    write_table(folder, "host_blockscaled", HOST_BLOCKSCALED_ROWS, "blockscaled_gemm")
    write_table(folder, "host_quantize", HOST_QUANTIZE_ROWS, "quantize")
    write_table(folder, "host_grouped_gemm", HOST_GROUPED_ROWS, "grouped_gemm")
    write_table(folder, "host_reduced", HOST_REDUCED_ROWS, "reduced_gemm")
    write_table(folder, "host_scale_columns", HOST_SCALE_COLUMNS_ROWS, "scale_columns")
    write_table(folder, "host_transpose_fp8", HOST_TRANSPOSE_FP8_ROWS, "transpose_fp8")
    write_table(folder, "host_prenorm", HOST_PRENORM_ROWS, "hc_prenorm")
    write_table(folder, "host_mqa_logits", HOST_MQA_ROWS, "mqa_logits")
    return folder


@pytest.fixture
def host(host_library: Path, host_generated: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Context]:
    """For `tilewright.gemm`, as if on an H200."""
    yield from host_context(host_generated, host_library, monkeypatch, ("host_absent",))


@pytest.fixture
def blackwell(
    host_blockscaled_library: Path, host_generated: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Context]:
    """For the block-scaled products, as if on a B300."""
    lacking = ("host_nvfp4_absent",)
    yield from host_context(host_generated, host_blockscaled_library, monkeypatch, lacking, B300)


@pytest.fixture
def hopper(
    host_quantize_library: Path, host_generated: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Context]:
    """For the ops that quantise, as if on an H200."""
    lacking = ("host_to_nvfp4_f16_absent",)
    yield from host_context(host_generated, host_quantize_library, monkeypatch, lacking)


@pytest.fixture(scope="session")
def host_scale_columns_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("host_scale_columns")
    rows = HOST_SCALE_COLUMNS_ROWS
    return build_host_library(folder, "scale_columns", rows, "host_scale_columns_kernels.cc")


@pytest.fixture
def scale_columns_host(
    host_scale_columns_library: Path, host_generated: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Context]:
    """For `tilewright.scale_columns`, as if on an H200."""
    yield from host_context(host_generated, host_scale_columns_library, monkeypatch)


@pytest.fixture(scope="session")
def host_transpose_fp8_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("host_transpose_fp8")
    return build_host_library(
        folder, "transpose_fp8", HOST_TRANSPOSE_FP8_ROWS, "host_transpose_fp8_kernels.cc"
    )


@pytest.fixture
def transpose_fp8_host(
    host_transpose_fp8_library: Path, host_generated: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Context]:
    """For `tilewright.transpose_fp8`, as if on an H200."""
    yield from host_context(host_generated, host_transpose_fp8_library, monkeypatch)


@pytest.fixture(scope="session")
def host_grouped_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("host_grouped")
    return build_host_library(folder, "grouped_gemm", HOST_GROUPED_ROWS, "host_grouped_kernels.cc")


@pytest.fixture
def grouped(
    host_grouped_library: Path, host_generated: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Context]:
    """For scaled and grouped products, as if on an H200."""
    yield from host_context(host_generated, host_grouped_library, monkeypatch)


@pytest.fixture
def prenorm(
    host_prenorm_library: Path, host_generated: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Context]:
    """For `tilewright.hc_prenorm`, as if on an H200."""
    yield from host_context(host_generated, host_prenorm_library, monkeypatch)


@pytest.fixture(scope="session")
def host_reduced_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("host_reduced")
    return build_host_library(folder, "reduced_gemm", HOST_REDUCED_ROWS, "host_reduced_kernels.cc")


@pytest.fixture(scope="session")
def product_libraries(
    host_library: Path,
    host_grouped_library: Path,
    host_reduced_library: Path,
    host_scale_columns_library: Path,
    host_transpose_fp8_library: Path,
) -> dict[str, Path]:
    """Those of products of every kind and of their scales, by module."""
    return {
        "host_gemm": host_library,
        "host_grouped_gemm": host_grouped_library,
        "host_reduced": host_reduced_library,
        "host_scale_columns": host_scale_columns_library,
        "host_transpose_fp8": host_transpose_fp8_library,
    }


@pytest.fixture
def all_hosts(
    product_libraries: dict[str, Path], host_generated: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Context]:
    """For products of every kind and their scales, as if on an H200."""
    yield from host_context(host_generated, product_libraries, monkeypatch, ("host_absent",))


@pytest.fixture(scope="session")
def host_mqa_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("host_mqa_logits")
    return build_host_library(folder, "mqa_logits", HOST_MQA_ROWS, "host_mqa_logits_kernels.cc")


@pytest.fixture
def mqa_host(
    host_mqa_library: Path, host_generated: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Context]:
    """For the MQA ops (16 heads of 32), as if on an H200."""
    yield from host_context(host_generated, host_mqa_library, monkeypatch)
