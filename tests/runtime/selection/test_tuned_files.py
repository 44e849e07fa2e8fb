"""Tuned files: what is written is found, and a damaged file is set aside."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from tuned_entries import DRIVER, entry, tuned

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
from tilewright.tools.tuning.tuning import default_folder

pytestmark = pytest.mark.usefixtures("driver")


def test_what_is_written_is_found(path: Path, header: Header, registry: Registry) -> None:
    entries = [
        entry(64, "split@decomposition=split_k,splits=4", 2e-5, frozenset({"split", "small"})),
        entry(32),
        entry(32, "half", 3e-5, a="f16", b="f16", d="f16"),
    ]
    tuned_writing.update(path, header, FAMILY, entries)
    actual = tuned(registry)
    assert [actual.exact(tuned_entry.problem) for tuned_entry in entries] == [
        tuned_entry.tactic for tuned_entry in entries
    ]
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
    assert [tuned_entry.problem for tuned_entry in actual.entries] == [problem]
    # One kernel's D wants 8 elements (16 bytes).
    assert actual.exact(replace(problem, alignment=problem.alignment._replace(d=8))) == tactic
    unaligned = replace(problem, alignment=problem.alignment._replace(d=4))
    assert actual.exact(unaligned) is None
    assert actual.neighbour(replace(unaligned, m=400)) is None
    assert actual.neighbour(replace(problem, m=400)) == (tactic, problem)


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


def test_a_named_folder_that_is_missing_is_logged(
    tmp_path: Path, registry: Registry, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("TILEWRIGHT_TUNED", str(tmp_path / "typo"))
    for _ in range(2):
        assert Context(registry).tuned(FAMILY, H200) is None
    assert caplog.messages == [f"TILEWRIGHT_TUNED: {tmp_path / 'typo'} does not exist; passed over"]


def test_results_do_not_go_to_a_file_that_is_no_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILEWRIGHT_TUNED", str(tmp_path / "h200.json"))
    assert default_folder() == tmp_path / "h200.json"
    (tmp_path / "h200.json").write_text("{}")
    with pytest.raises(StoreError, match=r"expected a folder of tuned files, got the file .*h200\.json"):
        default_folder()


def test_without_the_variable_they_are_in_the_cache(
    tmp_path: Path, header: Header, registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TILEWRIGHT_TUNED")
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "cache"))
    path = tmp_path / "cache" / "tuned" / "nvidia_h200" / "gemm.json"
    tuned_writing.update(path, header, FAMILY, [entry()])
    assert tuned(registry).exact(entry().problem) == Tactic("small")


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
    assert [tuned_entry.problem for tuned_entry in actual.standing] == [problem]
    path.write_text(path.read_text().replace('"m": 256', '"m": 0'))
    actual = review(tuned_files.read(path), GROUPED, registry)
    assert not actual.standing
    assert [row.reason for row in actual.dropped] == ["its problem is not " + ", ".join(GROUPED.extents)]


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
