"""`tilewright status` says of every kernel what the records say, and nothing that has become untrue."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from command_line import ROOT
from recorded_project import MODULE, allow, check, first, rewrite, rows, run, status

from tilewright.declarations.table import Table


def test_says_what_the_records_say(project: Path) -> None:
    table = Table.read(project / "generated" / MODULE / "table.json")
    actual = rows(project)
    assert [row["name"] for row in actual] == sorted(table)
    assert {(row["compiled"], row["run"], row["target"]) for row in actual} == {
        ("current", "current", "sm_90a")
    }
    row = actual[0]
    assert (row["numbers"]["registers"], row["numbers"]["tensor_instructions"]) == (168, {"HGMMA": 4})
    assert (row["check"]["gpu"], row["check"]["problems"], row["check"]["max_error"]) == (
        "NVIDIA H200", 9, 1e-3,
    )  # fmt: skip
    assert check(project) == 0


def test_counts_by_module_and_by_target_and_names_what_does_not_hold(project: Path) -> None:
    """Kernels that no record has are counted, and are no fault."""
    kernels = len(Table.read(project / "generated" / MODULE / "table.json"))
    other = project / "generated" / "sm90_gemm_stream"
    shutil.copytree(ROOT / "generated" / "sm90_gemm_stream", other)
    never = len(Table.read(other / "table.json"))
    rewrite(project, lambda row: row.update(passed=False))
    failed = first(project)["name"]
    done = status(project)
    assert done.code == 0
    lines = [" ".join(line.split()) for line in done.out.splitlines() if line]
    assert lines[:7] == [
        f"kernels of the set {project / 'generated'}",
        "module kernels compiled run hammered host",
        f"sm90_gemm_stream {never} 0 0 0 0",
        f"{MODULE} {kernels} {kernels} {kernels - 1} 0 {kernels - 1}",
        "target kernels compiled run hammered host",
        f"sm_90a {kernels + never} {kernels} {kernels - 1} 0 {kernels - 1}",
        f"all {kernels + never} {kernels} {kernels - 1} 0 {kernels - 1}",
    ]
    assert lines[7] == f"compiled, never: {never} kernels"
    assert f"run, failed: 1 kernel: {failed}" in " ".join(lines)
    assert f"run, never: {never} kernels" in lines
    assert f"{failed}: its last run on a GPU failed" == status(project, "--check").out.strip()


def test_stale_kernels_are_named(project: Path) -> None:
    (name, *_) = (row["name"] for row in rows(project))
    with (project / f"generated/{MODULE}/{name}.cu").open("a") as source:
        source.write("int edited;\n")
    words = status(project).out.split()
    assert words.count(name) == 2  # compiled, and run


@pytest.mark.parametrize("what", ["runtime/include/tilewright/gemm/args.h", "source", "pyproject.toml"])
def test_an_outdated_row_shown_as_current_fails(project: Path, what: str) -> None:
    name = first(project)["name"]
    path = project / (f"generated/{MODULE}/{name}.cu" if what == "source" else what)
    text = path.read_text(encoding="utf-8")
    text = (
        text.replace("nvidia-cutlass==4.2.0", "nvidia-cutlass==4.3.0")
        if "toml" in what
        else text + "\nint x;\n"
    )
    path.write_text(text, encoding="utf-8")
    assert allow(project, '{"compiled": 0, "run": 0}').code == 1
    assert first(project)["compiled"] == "stale"
    assert run(project) == ("NVIDIA H200", "stale")


def test_rows_that_are_stale_are_counted(project: Path) -> None:
    """One header edited, and as many rows as it reaches say something of the past."""
    kernels = len(Table.read(project / "generated" / MODULE / "table.json"))
    assert allow(project, '{"compiled": 0, "run": 0}').code == 0
    with (project / "runtime/include/tilewright/epilogue.hpp").open("a") as header:
        header.write("int edited;\n")
    done = allow(project, f'{{"compiled": {kernels - 1}, "run": {kernels}}}')
    assert done.code == 1
    assert f"{kernels} rows of what was compiled are stale, and {kernels - 1} may be" in done.out
    assert "of what was run" not in done.out
    done = allow(project, f'{{"compiled": {kernels}, "run": {kernels - 1}}}')
    assert f"{kernels} rows of what was run are stale, and {kernels - 1} may be" in done.out
    assert allow(project, f'{{"compiled": {kernels}, "run": {kernels}}}').code == 0
    released = status(project, "--check", "--release")
    assert released.code == 1
    assert f"{kernels} rows of what was run are stale, and 0 may be" in released.out


def test_a_failed_row_is_allowed_by_name_alone_and_while_it_fails(project: Path) -> None:
    name = first(project)["name"]
    listed = f'{{"compiled": 0, "run": 0, "failed": {{"{name}": "what was wrong"}}}}'
    done = allow(project, listed)
    assert (done.code, f"{name}: stale.json lists it as failed, and it is not" in done.out) == (1, True)
    rewrite(project, lambda row: row.update(passed=False))
    assert allow(project, '{"compiled": 0, "run": 0}').code == 1
    assert allow(project, listed.replace(name, f"{name}_")).code == 1
    done = allow(project, listed)
    assert done.code == 0, done.out
    assert status(project, "--check", "--release").code == 1


def test_a_release_is_checked(project: Path) -> None:
    done = status(project, "--release")
    assert (done.code, "--release goes with --check" in done.err) == (2, True)


@pytest.mark.parametrize(
    "text", ["", "[]", '{"compiled": 1}', '{"compiled": -1, "run": 0}', '{"compiled": true, "run": 0}']
)
def test_a_count_that_is_none_is_refused(project: Path, text: str) -> None:
    done = allow(project, text)
    assert done.code == 2
    assert "stale.json" in done.err


def test_rows_of_this_repository_are_within_their_bounds() -> None:
    done = status(ROOT, "--check")
    assert done.code == 0, done.out
