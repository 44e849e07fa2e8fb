"""Builds that a registry starts, and libraries that it loads."""

from __future__ import annotations

import errno
import io
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tilewright.compile import building
from tilewright.compile.progress import Progress
from tilewright.declarations.table import Table
from tilewright.errors import (
    NotBuiltError,
    TilewrightError,
)
from tilewright.libraries import builds
from tilewright.libraries.registry import Registry

BOUND = 500  # seconds that no load reaches


def test_builds_just_in_time(host_library: Path, host_generated: Path, monkeypatch, built) -> None:
    monkeypatch.delenv("TILEWRIGHT_JIT", raising=False)
    libraries: list[object] = []
    asked: list[tuple[str, str]] = []

    def build(table, kernel: str) -> None:
        asked.append((table.module, kernel))
        libraries.append(built(host_library))

    registry = Registry(host_generated, libraries=lambda module: libraries, build=build)
    record = registry.record("host_bf16_tn")
    assert not registry.is_built(record)
    assert registry.library(record).path == host_library
    assert registry.is_built(record)
    registry.library(record)
    assert asked == [("host_gemm", "host_bf16_tn")]


def test_a_build_of_a_call_goes_on_where_nobody_reads_stderr(
    host_generated: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Pipe(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    class Report:
        def raise_for_failures(self) -> None:
            told.append("ended")

    def build(tables: list[Table], select: list[str], progress: Progress) -> Report:
        progress.start(1, 1)
        told.append(f"{tables[0].module} {select[0]}")
        return Report()

    told: list[str] = []
    monkeypatch.setattr(building, "build", build)
    monkeypatch.setattr(sys, "stderr", Pipe())
    builds.build_kernel(Registry(host_generated).tables["host_gemm"], "host_bf16_tn")
    assert told == ["host_gemm host_bf16_tn", "ended"]


def test_a_build_that_yields_nothing(host_generated: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TILEWRIGHT_JIT", raising=False)
    registry = Registry(host_generated, libraries=lambda module: [], build=lambda table, kernel: None)
    with pytest.raises(TilewrightError, match="no library of host_gemm holds it"):
        registry.library(registry.record("host_bf16_tn"))


def test_a_library_that_was_replaced_on_disk(
    host_library: Path, host_generated: Path, tmp_path, built
) -> None:
    listings = [[built(tmp_path / "gone.so")], [built(host_library)]]
    registry = Registry(host_generated, libraries=lambda module: listings.pop(0))
    assert registry.library(registry.record("host_bf16_tn")).path == host_library


def test_a_library_that_does_not_load_hides_no_other(
    host_library: Path, host_generated: Path, tmp_path: Path, built, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "broken.so").write_bytes(b"no library")
    listing = [built(tmp_path / "broken.so"), built(host_library)]
    registry = Registry(host_generated, libraries=lambda module: listing)
    record = registry.record("host_bf16_tn")
    assert registry.library(record).path == host_library
    assert "broken.so does not load" in caplog.text
    assert registry.changes == 1  # so that what was chosen by what is built is chosen anew
    caplog.clear()
    assert registry.library(record).path == host_library
    assert caplog.text == ""  # once is enough
    assert registry.changes == 1


def test_a_library_that_does_not_load_is_built_again(
    host_library: Path, host_generated: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, built
) -> None:
    (tmp_path / "broken.so").write_bytes(b"no library")
    listing = [built(tmp_path / "broken.so")]

    def build(table, kernel: str) -> None:
        listing.insert(0, built(host_library))

    registry = Registry(host_generated, libraries=lambda module: listing, build=build)
    record = registry.record("host_bf16_tn")
    monkeypatch.setenv("TILEWRIGHT_JIT", "0")
    with pytest.raises(NotBuiltError, match=r"broken\.so does not load"):
        registry.library(record)
    monkeypatch.delenv("TILEWRIGHT_JIT")
    assert registry.library(record).path == host_library


def test_a_build_makes_others_wait_for_its_kernel_alone(
    host_library: Path, host_generated: Path, monkeypatch: pytest.MonkeyPatch, built
) -> None:
    monkeypatch.delenv("TILEWRIGHT_JIT", raising=False)
    listing = [built(host_library, lacking=("host_bf16_nt",))]
    started, finish = threading.Event(), threading.Event()
    asked: list[str] = []

    def build(table, kernel: str) -> None:
        asked.append(kernel)
        started.set()
        assert finish.wait(BOUND)
        listing.insert(0, built(host_library))

    registry = Registry(host_generated, libraries=lambda module: listing, build=build)
    with ThreadPoolExecutor(3) as threads:
        try:
            builders = [threads.submit(registry.library, registry.record("host_bf16_nt")) for _ in range(2)]
            assert started.wait(BOUND)
            other = threads.submit(registry.library, registry.record("host_bf16_tn"))
            assert other.result(timeout=BOUND).path == host_library
            assert not any(builder.done() for builder in builders)
        finally:
            finish.set()
        assert [builder.result(timeout=BOUND).path for builder in builders] == [host_library] * 2
    assert asked == ["host_bf16_nt"]
