"""Entries of a tuned file: which stand, which are dropped, and what each one names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tuned_entries import entry, tuned

from tilewright.declarations.tactics import Tactic
from tilewright.errors import TunedFileError
from tilewright.families.gemm.family import FAMILY
from tilewright.families.gemm.problem import Problem
from tilewright.libraries.registry import Registry
from tilewright.selection import tuned_files
from tilewright.selection.tuned_header import Header
from tilewright.tools.tuning import tuned_writing
from tilewright.tools.tuning.review import review

pytestmark = pytest.mark.usefixtures("driver")


def test_entries_stand_as_long_as_their_own_kernels_do(
    path: Path, header: Header, registry: Registry, later: Registry
) -> None:
    """In `later` one kernel is gone and one is new: neither touches what is tuned with the others."""
    before = [entry(32), entry(64, "big"), entry(128, "big")]
    seen = frozenset({"big", "small", "split"})
    tuned_writing.update(path, header, FAMILY, [tuned_entry._replace(seen=seen) for tuned_entry in before])
    text = path.read_bytes()
    actual = tuned(later)
    assert actual.exact(Problem(64, 4096, 4096)) == Tactic("big")
    assert actual.exact(Problem(32, 4096, 4096)) is None
    (message,) = actual.messages
    assert message.endswith("dropped 1 entry: small (no such kernel)")
    assert path.read_bytes() == text
    reviewed = review(tuned_files.read(path), FAMILY, later)
    assert [tuned_entry.problem.m for tuned_entry in reviewed.standing] == [64, 128]
    assert [stale.entry for stale in reviewed.unseen] == reviewed.standing
    assert {stale.kernels for stale in reviewed.unseen} == {("new",)}
    assert [dropped.tactic for dropped in reviewed.dropped] == ["small"]
    # What is tuned beside the new kernel moves to the section of all four; the others stay as they are.
    tuned_writing.update(path, header, FAMILY, [entry(64, "new", seen=seen | {"new"})])
    sections = {
        section.seen: [row["m"] for row in section.rows] for section in tuned_files.read(path).sections
    }
    assert sections == {("big", "small", "split"): [32, 128], ("big", "new", "small", "split"): [64]}
    assert tuned(later).entry(Problem(64, 4096, 4096)) == (Tactic("new"), 1e-5, path, seen | {"new"})
    unseen = review(tuned_files.read(path), FAMILY, later).unseen
    assert [stale.entry.problem.m for stale in unseen] == [128]
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
    assert [
        tuned_entry.problem.m for tuned_entry in review(tuned_files.read(path), FAMILY, both).standing
    ] == [32]
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
    assert [tuned_entry.problem.m for tuned_entry in actual.entries] == [256]
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


@pytest.mark.parametrize("changed", ['"m": 32,', '"m": 32, "n": 4096, "splits": 2,'])
def test_an_entry_names_the_extents_and_no_more(
    path: Path, header: Header, registry: Registry, changed: str
) -> None:
    tuned_writing.update(path, header, FAMILY, [entry(), entry(64)])
    path.write_text(path.read_text().replace('"m": 32, "n": 4096,', changed))
    actual = tuned(registry)
    assert [tuned_entry.problem.m for tuned_entry in actual.entries] == [64]
    assert "its problem is not m, n, k, batch" in actual.messages[0]
    with pytest.raises(TunedFileError, match="is no entry"):
        tuned_writing.update(path, header, FAMILY, [entry()])
