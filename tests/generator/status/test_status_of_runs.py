"""`tilewright status`: which run of a kernel counts, and what the hammer found."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from recorded_project import (
    CODE,
    OLD,
    OLDER,
    allow,
    check,
    compiled_anew,
    first,
    hammer,
    rewrite,
    rows,
    run,
    status,
)


def test_a_failed_run_is_shown_as_failed(project: Path) -> None:
    rewrite(project, lambda row: row.update(passed=False, max_error=None, problems=0))
    assert run(project) == ("NVIDIA H200", "failed")
    assert [row["run"] for row in rows(project)[1:]] == ["current"] * (len(rows(project)) - 1)
    done = status(project, "--check")
    assert done.code == 1
    assert f"{first(project)['name']}: its last run on a GPU failed" in done.out


@pytest.mark.parametrize("date", ["2025-06-06", "2027-06-06"])
def test_a_failure_is_not_hidden_by_a_pass_on_another_gpu(project: Path, date: str) -> None:
    rewrite(project, lambda row: row.update(passed=False, date=date), "h100")
    assert run(project) == ("NVIDIA H100", "failed")


def test_a_failure_of_another_source_is_behind_a_pass_of_this_one(project: Path) -> None:
    rewrite(project, lambda row: row.update(passed=False, **OLD, date="2027-06-06"), "h100")
    assert run(project) == ("NVIDIA H200", "current")
    rewrite(project, lambda row: row.update(OLDER))
    assert run(project) == ("NVIDIA H100", "failed")


@pytest.mark.parametrize("date", ["2025-06-06", "2027-06-06"])
def test_a_run_of_this_source_counts_whatever_is_newer(project: Path, date: str) -> None:
    rewrite(project, lambda row: row.update(**OLD, problems=5, date=date), "h100")
    assert (*run(project), first(project)["check"]["problems"]) == ("NVIDIA H200", "current", 9)


def test_of_runs_that_count_alike_the_newest_is_shown(project: Path) -> None:
    for problems, date in ((5, "2025-06-06"), (6, "2027-06-06")):
        rewrite(project, lambda row, p=problems, d=date: row.update(problems=p, date=d), "h100")  # type: ignore[misc]
        shown = (*run(project), first(project)["check"]["problems"])
        assert (shown == ("NVIDIA H100", "current", 6)) == (date > "2026")


@pytest.mark.parametrize(
    ("code", "word"), [(CODE, "current"), ("1" * 32, "stale"), ("", "stale"), (None, "stale")]
)
def test_a_run_counts_as_long_as_the_machine_code_is_what_ran(
    project: Path, code: str | None, word: str
) -> None:
    compiled_anew(project, code)
    assert first(project)["compiled"] == "current"
    assert run(project) == ("NVIDIA H200", word)


def test_a_run_without_machine_code_counts_by_its_source_alone(project: Path) -> None:
    compiled_anew(project, "")
    rewrite(project, lambda row: row.update(machine_code=""))
    assert run(project) == ("NVIDIA H200", "stale")


def test_what_was_compiled_before_an_edit_does_not_vouch_for_a_run(project: Path) -> None:
    with (project / "runtime/include/tilewright/epilogue.hpp").open("a") as header:
        header.write("int edited;\n")
    assert first(project)["compiled"] == "stale"
    assert run(project) == ("NVIDIA H200", "stale")


@pytest.mark.parametrize(
    ("changes", "word"),
    [({}, "current"), ({"machine_code": "old"}, "current"), ({"source_key": "old"}, "current"),
     (OLD, "stale"), ({"wrong": 3}, "failed"), ({"wrong": 3, **OLD}, "failed")],
)  # fmt: skip
def test_what_the_hammer_found_is_shown_beside_the_run(
    project: Path, changes: dict[str, object], word: str
) -> None:
    hammer(project, **changes)
    assert run(project) == ("NVIDIA H200", "current")
    assert [row["hammered"] for row in rows(project)] == [word, *["never"] * (len(rows(project)) - 1)]
    assert first(project)["hammer"]["runs"] == 2000
    name = first(project)["name"]
    done = allow(project, '{"compiled": 0, "run": 0, "hammered": 0}')
    assert done.code == (word != "current")
    if word == "failed":
        assert f"{name}: 3 of 2000 runs of the hammer had wrong bits" in done.out
    if word == "stale":
        assert "1 rows of what was hammered are stale, and 0 may be" in done.out
        assert allow(project, '{"compiled": 0, "run": 0, "hammered": 1}').code == 0


def test_a_kernel_that_was_hammered_alone_has_not_run(project: Path) -> None:
    def forget(row: dict[str, Any]) -> None:
        for name in ("passed", "problems", "max_error"):
            del row[name]

    hammer(project)
    rewrite(project, forget)
    row = first(project)
    assert (row["run"], row["hammered"], row["check"]) == ("never", "current", {})
    assert check(project) == 0
