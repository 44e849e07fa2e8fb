"""A bundle of host kernels, which is built for real."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from host_modules import HOST_TRANSPOSE_FP8_ROWS, write_module
from host_programs import FOLDER, host_compiler
from small_bundle import ROWS, products

from tilewright import bundle, context
from tilewright.architectures.device import H200
from tilewright.bundle.closed import Bundle
from tilewright.context import Context
from tilewright.libraries.registry import Registry
from tilewright.tools.bundling import making, planning
from tilewright.tools.bundling.closure import Setting


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("kernels") / "generated"
    write_module(folder, "host_gemm", "gemm", ROWS, "host_kernels.cc")
    write_module(
        folder, "host_turn", "transpose_fp8", HOST_TRANSPOSE_FP8_ROWS, "host_transpose_fp8_kernels.cc"
    )
    return folder


@pytest.fixture(scope="module")
def setting(generated: Path) -> Setting:
    return Setting((generated,), H200, batch_invariant=False)


@pytest.fixture(scope="module")
def plan(setting: Setting) -> planning.Plan:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TILEWRIGHT_TUNED", "")
        return planning.plan(products(), setting, jobs=1)


@pytest.fixture(scope="module")
def made(plan: planning.Plan, generated: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a bundle."""
    host_compiler()
    folder = tmp_path_factory.mktemp("bundles") / "small"
    registry = Registry(generated)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TILEWRIGHT_TRUST_CACHE", "1")
        patch.setenv("TILEWRIGHT_CACHE", str(FOLDER / "cache"))
        report = making.build_kernels(plan, registry, folder)
    report.raise_for_failures()
    making.write(plan, registry, folder, ["# Report\n", "{}\n"])
    return folder


@pytest.fixture
def without_compiler(generated: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernels' tables, an empty cache, and no program to compile with."""
    monkeypatch.setenv("TILEWRIGHT_TRUST_CACHE", "1")
    monkeypatch.setenv("TILEWRIGHT_GENERATED", str(generated))
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("TILEWRIGHT_JIT", "0")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)


@pytest.fixture
def small(made: Path, without_compiler: None) -> Bundle:
    return bundle.load(made)


@pytest.fixture
def current(small: Bundle) -> Iterator[Context]:
    with context.use(Context(described=H200, bundle=small)) as used:
        yield used
