"""The header of a tuned file: which files stand on this machine, and which are refused."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tuned_entries import DRIVER, altered, entry, tuned

from tilewright.architectures import device as devices
from tilewright.architectures.device import H200
from tilewright.base import paths
from tilewright.declarations.tactics import Tactic
from tilewright.errors import ForeignTunedFileError
from tilewright.families.gemm.family import FAMILY
from tilewright.families.gemm.problem import Problem
from tilewright.libraries.registry import Registry
from tilewright.selection import tuned_files
from tilewright.selection.tuned_header import Header
from tilewright.tools.tuning import tuned_writing

pytestmark = pytest.mark.usefixtures("driver")

# What of a header differs, and what a refusal says.
MISMATCHES = [
    ({"gpu": "NVIDIA H100"}, "its GPU is NVIDIA H100, here it is NVIDIA H200"),
    ({"capability": "8.0"}, "its capability is 8.0, here it is 9.0"),
    ({"sm_count": 114}, "its number of SMs is 114, here it is 132"),
    ({"cuda": "12.8"}, "its CUDA is 12.8, here it is 13.0"),
    ({"cutlass": "4.1.0"}, "its CUTLASS is 4.1.0, here it is 4.2.0"),
    ({"driver": "570.86.10"}, "its driver is 570.86.10, here it is 580.159.04 (another branch)"),
    ({"driver": ""}, "its driver is not stated"),
]


@pytest.mark.parametrize("mismatch", MISMATCHES)
def test_a_header_that_differs_is_refused_and_never_overwritten(
    path: Path, header: Header, registry: Registry, caplog, mismatch: tuple[dict[str, Any], str]
) -> None:
    fields, reason = mismatch
    tuned_writing.update(path, header, FAMILY, [entry()])
    before = altered(path, **fields)
    actual = tuned(registry)
    assert actual.exact(entry().problem) is None
    assert any(reason in message for message in actual.messages)
    warnings = [record for record in caplog.records if reason in record.getMessage()]
    assert [record.levelno for record in warnings] == [logging.WARNING]
    with pytest.raises(ForeignTunedFileError) as caught:
        tuned_writing.update(path, header, FAMILY, [entry(64)])
    assert reason in str(caught.value)
    assert path.read_bytes() == before
    tuned(registry)
    assert len([record for record in caplog.records if reason in record.getMessage()]) == 1  # once


@pytest.mark.parametrize("unknown", ["driver", "cuda", "cutlass"])
def test_what_a_file_states_is_never_replaced_by_less(
    path: Path, header: Header, registry: Registry, unknown: str
) -> None:
    """Nor more is stated of times than is known: the file would be refused by who reads it next."""
    tuned_writing.update(path, header, FAMILY, [entry()])
    before = path.read_bytes()
    with pytest.raises(ForeignTunedFileError, match="here it is not known"):
        tuned_writing.update(path, replace(header, **{unknown: ""}), FAMILY, [entry(64)])
    assert path.read_bytes() == before
    altered(path, **{unknown: ""})
    with pytest.raises(ForeignTunedFileError, match="is not stated, here it is"):
        tuned_writing.update(path, header, FAMILY, [entry(64)])


def test_releases_compare_as_they_are_written(path: Path, header: Header, registry: Registry) -> None:
    """`13.0.88` is 13.0, on either side."""
    tuned_writing.update(path, header, FAMILY, [entry()])
    altered(path, cuda="13.0.88", cutlass="4.2.0.0")
    assert tuned_files.read(path).header == header
    tuned_writing.update(path, tuned_files.read(path).header, FAMILY, [entry(64)])
    assert (json.loads(path.read_text())["cuda"], len(tuned(registry).entries)) == ("13.0", 2)


def test_of_releases_of_equally_many_kernels_the_newer_is_stated() -> None:
    built = [{"nvcc": f"13.{n}", "cutlass": f"4.{n}.0"} for n in (9, 10)]
    registry = SimpleNamespace(toolchains=lambda family, capability: [(3, toolchain) for toolchain in built])
    stated = Header.of(H200, registry, "gemm", driver="580.1")
    assert (stated.cuda, stated.cutlass) == ("13.10", "4.10.0")


def test_a_file_of_another_format_is_refused(path: Path, header: Header, registry: Registry) -> None:
    tuned_writing.update(path, header, FAMILY, [entry()])
    before = altered(path, format=3, kinds="something new")
    assert "format 3, this tilewright reads 2" in tuned(registry).messages[0]
    with pytest.raises(ForeignTunedFileError, match="format 3"):
        tuned_writing.update(path, header, FAMILY, [entry(64)])
    assert path.read_bytes() == before


def test_a_file_of_another_family_is_refused(path: Path, header: Header, registry: Registry) -> None:
    tuned_writing.update(path, header, FAMILY, [entry()])
    before = altered(path, family="quantize")
    assert "it is of quantize" in tuned(registry).messages[0]
    with pytest.raises(ForeignTunedFileError, match="it is of quantize"):
        tuned_writing.update(path, header, FAMILY, [entry(64)])
    assert path.read_bytes() == before


def test_drivers_of_one_branch_are_as_one(path: Path, header: Header, registry: Registry) -> None:
    tuned_writing.update(path, replace(header, driver="580.65.06"), FAMILY, [entry()])
    assert tuned(registry).exact(entry().problem) == Tactic("small")
    tuned_writing.update(path, header, FAMILY, [entry(64)])
    assert len(tuned(registry).entries) == 2
    assert json.loads(path.read_text())["driver"] == DRIVER


def test_what_is_not_known_here_is_not_compared(
    path: Path, header: Header, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    tuned_writing.update(path, header, FAMILY, [entry()])
    monkeypatch.setattr(devices, "driver", lambda: None)
    assert tuned(registry).exact(entry().problem) == Tactic("small")


def test_shipped_defaults_stand_under_any_driver_and_come_last(
    path: Path, generated: Path, header: Header, registry: Registry, caplog
) -> None:
    shipped = paths.tuned_file(generated.parent / "tuned", H200.name, "gemm")
    old = replace(header, driver="550.54.14")
    tuned_writing.update(shipped, old, FAMILY, [entry(32, "big"), entry(64, "big")])
    tuned_writing.update(path, header, FAMILY, [entry(32)])
    actual = tuned(registry)
    assert actual.exact(Problem(32, 4096, 4096)) == Tactic("small")
    assert actual.exact(Problem(64, 4096, 4096)) == Tactic("big")
    altered(shipped, cutlass="4.1.0")
    with caplog.at_level(logging.INFO, "tilewright"):
        assert tuned(registry).exact(Problem(64, 4096, 4096)) is None
    refusals = [record for record in caplog.records if "its CUTLASS is 4.1.0" in record.getMessage()]
    assert [record.levelno for record in refusals] == [logging.INFO]


def test_what_a_build_would_take_where_nothing_is_built(
    generated: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    toolkit = tmp_path / "cuda"
    (toolkit / "bin").mkdir(parents=True)
    (toolkit / "include").mkdir()
    (toolkit / "bin" / "nvcc").write_text("#!/bin/sh\nexit 1\n")
    (toolkit / "bin" / "nvcc").chmod(0o755)
    (toolkit / "include" / "cuda_runtime_api.h").write_text("#define CUDART_VERSION  13020\n")
    monkeypatch.setenv("CUDA_HOME", str(toolkit))
    cutlass = tmp_path / "cutlass" / "include" / "cutlass"
    cutlass.mkdir(parents=True)
    (cutlass / "cutlass.h").touch()
    numbers = zip(("MAJOR", "MINOR", "PATCH"), (4, 5, 1), strict=True)
    (cutlass / "version.h").write_text("".join(f"#define CUTLASS_{name} {n}\n" for name, n in numbers))
    monkeypatch.setenv("CUTLASS_PATH", str(tmp_path / "cutlass"))
    header = Header.of(H200, Registry(generated, libraries=lambda module: []), "gemm")
    assert (header.cuda, header.cutlass) == ("13.2", "4.5.1")


def test_the_drivers_version_is_read_from_either_kind_of_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.04  Tue Jan  6 00:00:00 UTC 2026\nGCC: 12\n",
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (x@y)  Tue\n",
    ]
    monkeypatch.undo()
    for number, text in enumerate(texts):
        file = tmp_path / str(number)
        file.write_text(text)
        monkeypatch.setattr(devices, "_DRIVER_FILE", file)
        devices.driver.cache_clear()
        assert devices.driver() == DRIVER
    monkeypatch.undo()
    devices.driver.cache_clear()
