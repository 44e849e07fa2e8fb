"""Tuned files: what is refused and dropped, and that nothing that was confirmed is ever lost."""

from __future__ import annotations

import json
import logging
import multiprocessing
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tilewright.architectures import device as devices
from tilewright.architectures.device import B200, H200
from tilewright.base import paths
from tilewright.context import Context
from tilewright.declarations.tactics import Tactic
from tilewright.errors import ForeignTunedFileError, StoreError, TunedFileError
from tilewright.families.blockscaled_gemm.family import FAMILY as BLOCKSCALED
from tilewright.families.gemm.family import FAMILY
from tilewright.families.gemm.problem import Problem
from tilewright.families.grouped_gemm.family import FAMILY as GROUPED
from tilewright.libraries.registry import Registry
from tilewright.selection import tuned_files
from tilewright.selection.tuned import Tuned
from tilewright.selection.tuned_files import Entry
from tilewright.selection.tuned_header import Header
from tilewright.tools.tuning import tuned_writing
from tilewright.tools.tuning.review import review

DRIVER = "580.159.04"
BOUND = 500  # seconds that no load reaches


@pytest.fixture(autouse=True)
def driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "driver", lambda: DRIVER)


@pytest.fixture
def generated(tmp_path: Path, table, row) -> Path:
    folder = tmp_path / "project" / "generated"
    rows = [
        row("big", tile=[128, 256, 64]),
        row("split", scheduler="stream_k"),
        row("small", tile=[64, 16, 128], schedule="pingpong", swap_ab=True),
        row("half", a="f16", b="f16", d="f16"),
    ]
    table(folder, "sm90_x", rows)
    return folder


@pytest.fixture
def registry(generated: Path, built) -> Registry:
    return Registry(generated, libraries=lambda module: [built(Path("x.so"))])


@pytest.fixture
def later(tmp_path: Path, table, row, built) -> Registry:
    """The project after a while: a kernel less, and one more."""
    rows = [row("big", tile=[128, 256, 64]), row("half", a="f16", b="f16", d="f16"), row("new")]
    table(tmp_path / "later" / "generated", "sm90_x", rows)
    return Registry(tmp_path / "later" / "generated", libraries=lambda module: [built(Path("x.so"))])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TILEWRIGHT_TUNED", str(tmp_path / "mine"))
    return tmp_path / "mine"


@pytest.fixture
def path(folder: Path) -> Path:
    return paths.tuned_file(folder, H200.name, "gemm")


@pytest.fixture
def header(registry: Registry) -> Header:
    return Header.of(H200, registry, "gemm")


def entry(
    m: int = 32,
    tactic: str = "small",
    seconds: float = 1e-5,
    seen: frozenset[str] = frozenset(),
    **fields: Any,
) -> Entry:
    return Entry(Problem(m, 4096, 4096, **fields), Tactic.parse(tactic), seconds, seen)


def tuned(registry: Registry) -> Tuned:
    return Tuned(FAMILY, registry, H200)


def test_what_is_written_is_found(path: Path, header: Header, registry: Registry) -> None:
    entries = [
        entry(64, "split@decomposition=split_k,splits=4", 2e-5, frozenset({"split", "small"})),
        entry(32),
        entry(32, "half", 3e-5, a="f16", b="f16", d="f16"),
    ]
    tuned_writing.update(path, header, FAMILY, entries)
    actual = tuned(registry)
    assert [actual.exact(one.problem) for one in entries] == [one.tactic for one in entries]
    assert sorted(actual.entries, key=str) == sorted(entries, key=str)
    assert actual.entry(entries[0].problem) == (entries[0].tactic, 2e-5, path, {"split", "small"})
    assert actual.exact(Problem(32, 4096, 4096, bias=True)) is None
    assert actual.exact(Problem(33, 4096, 4096)) is None
    assert actual.messages == []


def test_one_entry_to_a_line_sorted(path: Path, header: Header, registry: Registry) -> None:
    entries = [entry(m) for m in (64, 16, 48, 32)]
    tuned_writing.update(path, header, FAMILY, entries)
    lines = path.read_text().splitlines()
    rows = [json.loads(line.rstrip(",")) for line in lines if line.startswith('  {"m"')]
    assert [row["m"] for row in rows] == [16, 32, 48, 64]
    before = path.read_bytes()
    tuned_writing.update(path, header, FAMILY, reversed(entries))
    assert path.read_bytes() == before
    head = json.loads(before)
    expected = {"gpu": "NVIDIA H200", "capability": "9.0", "sm_count": 132, "driver": DRIVER}
    assert {name: head[name] for name in expected} == expected
    assert (head["cuda"], head["cutlass"]) == ("13.0", "4.2.0")  # of the libraries


def test_new_entries_replace_old_ones_of_the_same_problem(
    path: Path, header: Header, registry: Registry
) -> None:
    tuned_writing.update(path, header, FAMILY, [entry(32), entry(64)])
    tuned_writing.update(path, header, FAMILY, [entry(32, "big", 5e-6)])
    actual = tuned(registry)
    assert actual.entry(Problem(32, 4096, 4096))[:2] == (Tactic("big"), 5e-6)
    assert actual.exact(Problem(64, 4096, 4096)) == Tactic("small")


def test_how_operands_lie_decides_what_is_legal_alone(
    tmp_path: Path, folder: Path, table, blockscaled_row, built
) -> None:
    table(tmp_path / "generated", "sm100_x", [blockscaled_row("one")], "blockscaled_gemm")
    registry = Registry(tmp_path / "generated", libraries=lambda module: [built(Path("x.so"))])
    header = Header.of(B200, registry, "blockscaled_gemm")
    problem = BLOCKSCALED.problem(512, 512, 512)
    path = paths.tuned_file(folder, B200.name, "blockscaled_gemm")
    tactic = Tactic("one", cluster="2x1")
    tuned_writing.update(path, header, BLOCKSCALED, [Entry(problem, tactic, 1e-5)])
    assert "alignment" not in path.read_text()
    actual = Tuned(BLOCKSCALED, registry, B200)
    assert actual.exact(problem) == tactic
    assert [one.problem for one in actual.entries] == [problem]
    # One kernel's D wants 8 elements (16 bytes).
    assert actual.exact(replace(problem, alignment=problem.alignment._replace(d=8))) == tactic
    unaligned = replace(problem, alignment=problem.alignment._replace(d=4))
    assert actual.exact(unaligned) is None
    assert actual.bucket(replace(unaligned, m=400)) is None
    assert actual.bucket(replace(problem, m=400)) == (tactic, problem)


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


def altered(path: Path, **fields: Any) -> bytes:
    data = json.loads(path.read_text())
    path.write_text(json.dumps(data | fields))
    return path.read_bytes()


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


def test_another_format(path: Path, header: Header, registry: Registry) -> None:
    tuned_writing.update(path, header, FAMILY, [entry()])
    before = altered(path, format=3, kinds="something new")
    assert "format 3, this tilewright reads 2" in tuned(registry).messages[0]
    with pytest.raises(ForeignTunedFileError, match="format 3"):
        tuned_writing.update(path, header, FAMILY, [entry(64)])
    assert path.read_bytes() == before


def test_another_familys_file(path: Path, header: Header, registry: Registry) -> None:
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


def test_the_first_of_several_folders_counts_most(
    tmp_path: Path, header: Header, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, tactic in (("first", "small"), ("second", "big")):
        path = paths.tuned_file(tmp_path / name, H200.name, "gemm")
        tuned_writing.update(path, header, FAMILY, [entry(32, tactic), entry(len(name), tactic)])
    both = os.pathsep.join([str(tmp_path / "first"), str(tmp_path / "second")])
    monkeypatch.setenv("TILEWRIGHT_TUNED", both)
    actual = tuned(registry)
    assert actual.exact(Problem(32, 4096, 4096)) == Tactic("small")
    assert actual.exact(Problem(6, 4096, 4096)) == Tactic("big")


def test_without_the_variable_they_are_in_the_cache(
    tmp_path: Path, header: Header, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TILEWRIGHT_TUNED")
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "cache" / "tuned" / "nvidia_h200" / "gemm.json"
    tuned_writing.update(path, header, FAMILY, [entry()])
    assert tuned(registry).exact(entry().problem) == Tactic("small")


def test_entries_stand_as_long_as_their_own_kernels_do(
    path: Path, header: Header, registry: Registry, later: Registry
) -> None:
    """Of `later` a kernel is gone and one is new: neither touches what is tuned with the others."""
    before = [entry(32), entry(64, "big"), entry(128, "big")]
    seen = frozenset({"big", "small", "split"})
    tuned_writing.update(path, header, FAMILY, [one._replace(seen=seen) for one in before])
    text = path.read_bytes()
    actual = tuned(later)
    assert actual.exact(Problem(64, 4096, 4096)) == Tactic("big")
    assert actual.exact(Problem(32, 4096, 4096)) is None
    (message,) = actual.messages
    assert message.endswith("dropped 1 entry: small (no such kernel)")
    assert path.read_bytes() == text
    reviewed = review(tuned_files.read(path), FAMILY, later)
    assert [one.problem.m for one in reviewed.standing] == [64, 128]
    assert [one.entry for one in reviewed.unseen] == reviewed.standing
    assert {one.kernels for one in reviewed.unseen} == {("new",)}
    assert [one.tactic for one in reviewed.dropped] == ["small"]
    # What is tuned beside the new kernel moves to the section of all four; the others stay as they are.
    tuned_writing.update(path, header, FAMILY, [entry(64, "new", seen=seen | {"new"})])
    sections = {one.seen: [row["m"] for row in one.rows] for one in tuned_files.read(path).sections}
    assert sections == {("big", "small", "split"): [32, 128], ("big", "new", "small", "split"): [64]}
    assert tuned(later).entry(Problem(64, 4096, 4096)) == (Tactic("new"), 1e-5, path, seen | {"new"})
    unseen = review(tuned_files.read(path), FAMILY, later).unseen
    assert [one.entry.problem.m for one in unseen] == [128]
    assert tuned(registry).exact(Problem(32, 4096, 4096)) == Tactic("small"), "for who goes back"


def test_what_needs_newer_headers_than_a_file_is_of_is_not_unseen(
    tmp_path: Path, path: Path, header: Header, table, row
) -> None:
    rows = [row("small"), row("now") | {"cutlass": "4.2"}, row("later") | {"cutlass": "4.5"}]
    table(tmp_path / "newer" / "generated", "sm90_x", rows)
    newer = Registry(tmp_path / "newer" / "generated", libraries=lambda module: [])
    tuned_writing.update(path, header, FAMILY, [entry()])
    (unseen,) = review(tuned_files.read(path), FAMILY, newer).unseen
    assert unseen.kernels == ("small", "now")


def test_a_kernel_of_another_gpu_does_not_stand(
    tmp_path: Path, path: Path, header: Header, table, row
) -> None:
    """Selection takes no entry whose kernel it could not run."""
    table(tmp_path / "both" / "generated", "both", [row("small"), row("other", arch="sm_100f")])
    both = Registry(tmp_path / "both" / "generated", libraries=lambda module: [])
    tuned_writing.update(path, header, FAMILY, [entry(32), entry(64, "other")])
    assert [one.problem.m for one in review(tuned_files.read(path), FAMILY, both).standing] == [32]
    actual = tuned(both)
    assert actual.exact(Problem(64, 4096, 4096)) is None
    assert "other (it does not run on compute capability 9.0" in actual.messages[0]


def test_a_problem_has_one_entry_also_where_its_kind_has_got_a_field(
    path: Path, header: Header, registry: Registry
) -> None:
    tuned_writing.update(path, header, FAMILY, [entry(32), entry(64)])
    data = json.loads(path.read_text())
    del data["kinds"][0]["kind"]["fast_accum"]
    path.write_text(json.dumps(data))
    tuned_writing.update(path, header, FAMILY, [entry(32, "big", 5e-6, seen=frozenset({"big"}))])
    rows = [(row["m"], row["tactic"]) for section in tuned_files.read(path).sections for row in section.rows]
    assert sorted(rows) == [(32, "big"), (64, "small")]


def test_unknown_names_and_illegal_tactics_are_dropped(
    path: Path, header: Header, registry: Registry, caplog
) -> None:
    tuned_writing.update(path, header, FAMILY, [entry(m) for m in (8, 16, 32, 64, 128, 256)])
    text = path.read_text()
    for m, tactic in (
        (8, "gone"), (16, "small@splits=4"), (32, "small@swizzle=3"), (64, "half"), (128, "gone_too"),
    ):  # fmt: skip
        text = text.replace(f'"m": {m}, "n": 4096, "k": 4096, "batch": 1, "tactic": "small"',
                            f'"m": {m}, "n": 4096, "k": 4096, "batch": 1, "tactic": "{tactic}"')  # fmt: skip
    path.write_text(text)
    actual = tuned(registry)
    assert actual.exact(Problem(8, 4096, 4096)) is None
    assert actual.exact(Problem(256, 4096, 4096)) == Tactic("small")
    assert [one.problem.m for one in actual.entries] == [256]
    (message,) = actual.messages
    assert (
        "dropped 5 entries: gone (no such kernel); small@splits=4 (only stream-K kernels split k)" in message
    )
    assert "and 2 more" in message
    assert [record.getMessage() for record in caplog.records].count(message) == 1
    assert path.read_text() == text


def test_a_field_that_problems_got_later_has_its_default(
    path: Path, header: Header, registry: Registry
) -> None:
    tuned_writing.update(path, header, FAMILY, [entry()])
    data = json.loads(path.read_text())
    del data["kinds"][0]["kind"]["fast_accum"]
    path.write_text(json.dumps(data))
    assert tuned(registry).exact(entry().problem) == Tactic("small")
    data["kinds"][0]["kind"]["colour"] = "red"
    path.write_text(json.dumps(data))
    assert tuned(registry).exact(entry().problem) is None
    assert "unknown problems" in tuned(registry).messages[0]


def test_what_is_not_expected_is_written_and_read(tmp_path: Path) -> None:
    """An extent that is a hint may be 0; one that is none makes no entry."""
    path = tmp_path / "grouped_gemm.json"
    registry = Registry()
    record = registry.record("grouped_gemm_sm90_bf16_bf16_bf16_128x128x64")
    kind = {name: record.config[name] for name in ("a", "b", "d", "scales")}
    problem = GROUPED.problem(m=256, n=512, k=1024, **kind)
    assert problem.expected_m == 0
    header = Header("NVIDIA H200", "9.0", 132, DRIVER, "13.0", "4.2.0")
    tuned_writing.update(path, header, GROUPED, [Entry(problem, Tactic(record.name), 1e-5)])
    actual = review(tuned_files.read(path), GROUPED, registry)
    assert [one.problem for one in actual.standing] == [problem]
    path.write_text(path.read_text().replace('"m": 256', '"m": 0'))
    actual = review(tuned_files.read(path), GROUPED, registry)
    assert not actual.standing
    assert [one.reason for one in actual.dropped] == ["its problem is not " + ", ".join(GROUPED.extents)]


def damaged(text: str) -> list[str]:
    """Texts that are no tuned file, as disks, editors and merges make them."""
    cuts = [text[: len(text) * part // 10] for part in range(10)]
    return [
        *cuts,
        "null",
        "[]",
        "\0" * len(text),
        "[" * 100_000,
        text.replace('"seconds": 1e-05', '"seconds": "fast"'),
        text.replace('"seconds": 1e-05', '"seconds": NaN'),
        text.replace('"seconds": 1e-05', '"seconds": 0'),
        text.replace('"seconds": 1e-05', '"seconds": -1e-05'),
        text.replace('"m": 32', '"m": -1'),
        text.replace('"m": 32', '"m": [32]'),
        text.replace('"tactic": "small"', '"tactic": 3'),
        text.replace('"kinds"', '"kin"'),
        text.replace('"layout": "tn"', '"layout": {"a": 1}'),
        text.replace('"sm_count": 132', '"sm_count": "many"'),
        text.replace('"capability": "9.0"', '"capability": "nine"'),
        text.replace('"gpu": "NVIDIA H200"', '"gpu": ""'),
        text.replace('"seen": [', '"seen": [3, '),
        text.replace('"seen"', '"saw"'),
        text.replace('{"m"', '<<<<<<< HEAD\n  {"m"', 1),
    ]


def test_a_damaged_file_is_said_passed_over_and_set_aside(
    path: Path, header: Header, registry: Registry
) -> None:
    tuned_writing.update(path, header, FAMILY, [entry(seen=frozenset({"small"})), entry(64)])
    for number, text in enumerate(damaged(path.read_text()), start=1):
        path.write_text(text)
        actual = tuned(registry)
        assert actual.exact(entry().problem) is None, text
        assert str(path) in actual.messages[0]
        with pytest.raises(TunedFileError) as caught:
            tuned_writing.update(path, header, FAMILY, [entry()])
        assert not isinstance(caught.value, ForeignTunedFileError)
        assert str(path) in str(caught.value)
        assert path.read_text() == text
        aside = tuned_writing.set_aside(path)
        assert (aside.name, aside.read_text()) == (f"gemm.json.broken-{number}", text)
        tuned_writing.update(path, header, FAMILY, [entry(seen=frozenset({"small"})), entry(64)])
        assert len(tuned(registry).entries) == 2


@pytest.mark.parametrize("changed", ['"m": 32,', '"m": 32, "n": 4096, "splits": 2,'])
def test_an_entry_names_the_extents_and_no_more(
    path: Path, header: Header, registry: Registry, changed: str
) -> None:
    tuned_writing.update(path, header, FAMILY, [entry(), entry(64)])
    path.write_text(path.read_text().replace('"m": 32, "n": 4096,', changed))
    actual = tuned(registry)
    assert [one.problem.m for one in actual.entries] == [64]
    assert "its problem is not m, n, k, batch" in actual.messages[0]
    with pytest.raises(TunedFileError, match="is no entry"):
        tuned_writing.update(path, header, FAMILY, [entry()])


def test_a_folder_that_cannot_be_written(tmp_path: Path, header: Header, registry: Registry) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(StoreError, match="cannot be written"):
        tuned_writing.update(tmp_path / "file" / "x" / "gemm.json", header, FAMILY, [entry()])


def test_the_context_reads_once_until_it_is_told(path: Path, header: Header, registry: Registry) -> None:
    context = Context(registry)
    problem = entry().problem
    assert context.tuned(FAMILY, H200) is None
    tuned_writing.update(path, header, FAMILY, [entry()])
    context.forget_tuned()
    first = context.tuned(FAMILY, H200)
    assert first is not None
    assert first is context.tuned(FAMILY, H200)
    assert context.select(FAMILY, problem, H200).source == "tuned"
    tuned_writing.update(path, header, FAMILY, [entry(32, "big")])
    assert context.select(FAMILY, problem, H200).tactic == Tactic("small")
    context.forget_tuned()
    assert context.select(FAMILY, problem, H200).tactic == Tactic("big")


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


def test_the_drivers_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


# Several processes, and some that are killed.

WRITER = """
import sys
from pathlib import Path
from tilewright.declarations.tactics import Tactic
from tilewright.families.gemm.family import FAMILY
from tilewright.families.gemm.problem import Problem
from tilewright.families.grouped_gemm.family import FAMILY as GROUPED
from tilewright.libraries.registry import Registry
from tilewright.selection import tuned_files
from tilewright.tools.tuning import tuned_writing
from tilewright.selection.tuned_header import Header
path, generated, first, step = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
registry = Registry(generated, libraries=lambda module: [])
from tilewright.architectures.device import H200
header = Header.of(H200, registry, "gemm", driver="580.159.04", cuda="13.0", cutlass="4.2.0")
for m in range(first, int(sys.argv[5]), step):
    problem = Problem(m, 4096, 4096)
    tuned_writing.update(path, header, FAMILY, [tuned_files.Entry(problem, Tactic("small"), 1e-6 * m)])
    print(m, flush=True)
"""


def writer(path: Path, generated: Path, first: int, step: int, end: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITER, str(path), str(generated), str(first), str(step), str(end)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def extents(path: Path) -> set[int]:
    return {row["m"] for section in tuned_files.read(path).sections for row in section.rows}


def test_two_processes_lose_nothing(path: Path, generated: Path) -> None:
    writers = [writer(path, generated, first, 2, 121) for first in (1, 2)]
    for process in writers:
        process.communicate(timeout=BOUND)
        assert process.returncode == 0
    assert extents(path) == set(range(1, 121))


def test_a_writer_that_is_killed_loses_nothing_it_confirmed(path: Path, generated: Path) -> None:
    shuffler = random.Random(4)
    confirmed: set[int] = set()
    first = 1
    for _ in range(10):
        process = writer(path, generated, first, 1, first + 10_000)
        assert process.stdout is not None
        for _ in range(shuffler.randint(1, 8)):
            confirmed.add(int(process.stdout.readline()))
        process.send_signal(signal.SIGKILL)  # while it writes the next
        confirmed.update(map(int, process.stdout.read().split()))
        process.stdout.close()
        process.wait()
        actual = extents(path)
        assert confirmed <= actual
        assert len(actual - confirmed) <= 10  # of each, one that was written and not yet said
        first = max(actual) + 1
    assert len(confirmed) >= 10
    header = tuned_files.read(path).header
    tuned_writing.update(path, header, FAMILY, [entry(first)])  # no lock is left behind, and no debris
    assert confirmed <= extents(path)
    assert {one.name for one in path.parent.iterdir()} <= {"gemm.json", "gemm.json.lock"}


def _update_forever(path: Path, generated: Path) -> None:
    registry = Registry(generated, libraries=lambda module: [])
    header = Header.of(H200, registry, "gemm", driver=DRIVER, cuda="13.0", cutlass="4.2.0")
    while True:
        tuned_writing.update(path, header, FAMILY, [entry(m) for m in range(1, 200)])


def test_a_reader_never_sees_half_a_file(path: Path, generated: Path) -> None:
    process = multiprocessing.get_context("fork").Process(target=_update_forever, args=(path, generated))
    process.start()
    try:
        while not path.exists():
            assert process.is_alive()
            time.sleep(0.01)
        for _ in range(300):
            assert len(extents(path)) == 199
    finally:
        process.kill()
        process.join()
