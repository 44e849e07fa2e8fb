"""`tilewright status` says of every kernel what the records say, and nothing that has become untrue."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import pytest
from command_line import ROOT, Result, run_in_a_process

from tilewright.compile.source_keys import SourceKeys
from tilewright.declarations.table import Table
from tilewright_generator import records

MODULE = "sm90_gemm_tf32_s8"
CODE = "0" * 32
OLD, OLDER = ({"source_key": word, "machine_code": word} for word in ("old", "older"))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A copy with one module, with a compile record and a GPU record that are current."""
    for name in ("specs", "runtime/include", f"generated/{MODULE}"):
        shutil.copytree(ROOT / name, tmp_path / name)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    table = Table.read(tmp_path / "generated" / MODULE / "table.json")
    report = {
        "toolchain": {"nvcc": "13.0.88", "host": "g++ 12", "cutlass": "4.2.0"},
        "kernels": [_unit(tmp_path, table, name) for name in table],
    }
    (tmp_path / "report.json").write_text(json.dumps(report))
    done = status(tmp_path, "--record", tmp_path / "report.json")
    assert done.code == 0, done.err
    head = {"format": 1, "gpu": "NVIDIA H200", "driver": "1", "date": "2026-01-01"}
    keys = {unit["name"]: unit["source_key"] for unit in report["kernels"]}
    ran = {"machine_code": CODE, "problems": 9, "max_error": 1e-3, "passed": True}
    checks = [{"name": name, "source_key": key, **ran} for name, key in keys.items()]
    records.write(tmp_path / "benchmarks/results/gpu/h200.json", head, checks)
    return tmp_path


def _unit(project: Path, table: Table, name: str, release: str = "4.2.0") -> dict[str, object]:
    return {
        "name": name,
        "module": table.module,
        "source_key": SourceKeys(project / "runtime" / "include", release).of(table, table[name]),
        "machine_code": CODE,
        **dict.fromkeys(("spill_store_bytes", "spill_load_bytes", "stack_bytes"), 0),
        **{"registers": 168, "smem_bytes": 1, "code_bytes": 2, "seconds": 40.0, "peak_memory_bytes": 3},
        "tensor_instructions": {"HGMMA.64x8x16.F32.BF16": 4},
        "grid_dependency": {"ACQBULK": 1},
        "findings": [],
    }


def status(project: Path, *arguments: object) -> Result:
    return run_in_a_process("status", *map(str, arguments), "--root", project)


def rows(project: Path) -> list[dict[str, Any]]:
    """What `status --json` says of the module's kernels, by their names."""
    actual: list[dict[str, Any]] = json.loads(status(project, "--json").out)["modules"][MODULE]
    assert [row["name"] for row in actual] == sorted(row["name"] for row in actual)
    return actual


def first(project: Path) -> dict[str, Any]:
    return rows(project)[0]


def run(project: Path) -> tuple[str, str]:
    """The GPU and the standing of the first kernel's run."""
    row = first(project)
    return row["check"]["gpu"], row["run"]


def check(project: Path) -> int:
    return status(project, "--check").code


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
        "module kernels compiled run hammered",
        f"sm90_gemm_stream {never} 0 0 0",
        f"{MODULE} {kernels} {kernels} {kernels - 1} 0",
        "target kernels compiled run hammered",
        f"sm_90a {kernels + never} {kernels} {kernels - 1} 0",
        f"all {kernels + never} {kernels} {kernels - 1} 0",
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


def rewrite(project: Path, change: Callable[[dict[str, Any]], None], name: str = "h200") -> dict[str, Any]:
    """Changes the first row of the H200's record, and writes it as the record `name`; what it was."""
    folder = project / "benchmarks/results/gpu"
    record = records.read(folder / "h200.json")
    row, *others = record.pop("kernels")
    changed = dict(row)
    change(changed)
    head = {key: value for key, value in record.items() if name == "h200" or key != "gpu"}
    changed_rows = [changed, *others] if name == "h200" else [changed]
    records.write(folder / f"{name}.json", {"gpu": f"NVIDIA {name.upper()}", **head}, changed_rows)
    return dict(row)


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


def compiled_anew(project: Path, code: str | None) -> None:
    """Edits a header that all kernels reach, and records what they were compiled to since."""
    with (project / "runtime/include/tilewright/epilogue.hpp").open("a") as header:
        header.write("int edited;\n")
    table = Table.read(project / "generated" / MODULE / "table.json")
    units = [_unit(project, table, name) for name in table]
    for each in units:
        each.pop("machine_code")
        each.update({} if code is None else {"machine_code": code})
    report = {"toolchain": {"nvcc": "13.0.88", "host": "g++ 12", "cutlass": "4.2.0"}, "kernels": units}
    (project / "report.json").write_text(json.dumps(report))
    done = status(project, "--record", project / "report.json")
    assert done.code == 0, done.err


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


def hammer(project: Path, **changes: object) -> None:
    """Records that the first kernel was hammered, as it is now but for the changes."""

    def change(row: dict[str, Any]) -> None:
        made_of = {name: row[name] for name in ("source_key", "machine_code")}
        row["hammered"] = {**made_of, "date": "2026-02-02", "runs": 2000, "wrong": 0, **changes}

    rewrite(project, change)


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


def allow(project: Path, text: str) -> Result:
    (project / "benchmarks/results/stale.json").write_text(text)
    return status(project, "--check")


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


@pytest.mark.parametrize("name", ["compile", "", f"compile/{MODULE}.json"])
def test_a_record_is_written_through_no_link(
    project: Path, name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    link = project / "benchmarks/results" / name
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "moved"
    link.rename(elsewhere)
    link.symlink_to(elsewhere)
    before = {path: path.read_bytes() for path in elsewhere.rglob("*") if path.is_file()}
    actual = run_in_a_process("status", "--record", project / "report.json", "--root", project)
    assert actual.code == 2
    assert f"{link}: a symbolic link, and nothing is written through links" in actual.err
    after = {path: path.read_bytes() for path in elsewhere.rglob("*") if path.is_file()}
    assert (before, link.is_symlink()) == (after, True)


def test_a_report_of_other_sources_is_refused(project: Path) -> None:
    name = first(project)["name"]
    with (project / f"generated/{MODULE}/{name}.cu").open("a") as source:
        source.write("int edited;\n")
    done = status(project, "--record", project / "report.json")
    assert done.code != 0
    assert "another source" in done.err


@pytest.mark.parametrize("field", ["registers", "grid_dependency", "peak_memory_bytes"])
def test_a_report_that_lacks_a_number_of_a_kernel_is_refused(project: Path, field: str) -> None:
    """It has all of them, or none of a kernel that did not compile."""
    path = project / "report.json"
    report = json.loads(path.read_text(encoding="utf-8"))
    del report["kernels"][0][field]
    path.write_text(json.dumps(report), encoding="utf-8")
    done = status(project, "--record", path)
    assert done.code == 2
    assert f"report.json: kernels[0]: {field} is missing" in done.err


def test_records_merge_and_forget_kernels_that_went(project: Path) -> None:
    path = project / "benchmarks/results/compile" / f"{MODULE}.json"
    table = Table.read(project / "generated" / MODULE / "table.json")
    before = records.read(path)
    row = {**before["kernels"][0], "registers": 99}
    records.merge(path, {"toolchain": before["toolchain"]}, [row, {**row, "name": "gone"}], table)
    after = records.read(path)
    assert [each["name"] for each in after["kernels"]] == sorted(table)
    assert after["kernels"][0]["registers"] == 99
    assert path.read_text().count("\n") == len(table) + 2


def test_rows_of_another_host_compiler_stay_and_say_it(project: Path) -> None:
    path = project / "benchmarks/results/compile" / f"{MODULE}.json"
    table = Table.read(project / "generated" / MODULE / "table.json")
    before = records.read(path)
    assert before["toolchain"]["host"] == "g++ 12"
    there = {**before["toolchain"], "host": "g++ 13"}
    records.merge(path, {"toolchain": there}, before["kernels"][:1], table)
    after = records.read(path)
    assert after["toolchain"] == there
    assert [row.get("host") for row in after["kernels"]] == [None, *["g++ 12"] * (len(table) - 1)]
    records.merge(path, {"toolchain": before["toolchain"]}, before["kernels"][:1], table)
    assert records.read(path) == before
    records.merge(path, {"toolchain": {**there, "nvcc": "13.1.0"}}, before["kernels"][:1], table)
    assert [row["name"] for row in records.read(path)["kernels"]] == [before["kernels"][0]["name"]]


NEEDY = 2  # kernels of `mixed` that need CUTLASS 4.5


@pytest.fixture
def mixed(project: Path) -> Path:
    """The module's first kernels need a newer CUTLASS than the project is pinned to; no records as yet."""
    path = project / "generated" / MODULE / "table.json"
    first, *lines = path.read_text(encoding="utf-8").split("\n")
    lines[:NEEDY] = [
        line.replace('"config": {', '"cutlass": "4.5", "config": {', 1) for line in lines[:NEEDY]
    ]
    path.write_text("\n".join([first, *lines]), encoding="utf-8")
    shutil.rmtree(project / "benchmarks")
    return project


def record_build(project: Path, release: str, names: Collection[str] = ()) -> Result:
    """`tilewright status --record` of a build with headers of a release; of all kernels it can compile."""
    table = Table.read(project / "generated" / MODULE / "table.json")
    taken = [name for name in names or table if release != "4.2.0" or not table[name].cutlass]
    report = {
        "toolchain": {"nvcc": "13.0.88", "host": "g++ 12", "cutlass": release},
        "kernels": [_unit(project, table, name, release) for name in taken],
    }
    path = project / "report.json"
    path.write_text(json.dumps(report))
    return status(project, "--record", path)


def compiled(project: Path) -> list[str]:
    """What each kernel is, in their order: current, stale or never compiled."""
    return [row["compiled"] for row in rows(project)]


@pytest.mark.parametrize("order", [("4.2.0", "4.5.0"), ("4.5.0", "4.2.0")])
def test_kernels_that_need_newer_headers_are_recorded_beside_the_others(
    mixed: Path, order: tuple[str, str]
) -> None:
    for release in order:
        done = record_build(mixed, release)
        assert done.code == 0, done.err
    table = Table.read(mixed / "generated" / MODULE / "table.json")
    record = records.read(mixed / "benchmarks/results/compile" / f"{MODULE}.json")
    assert record["toolchain"]["cutlass"] == "4.2.0"
    assert [row.get("cutlass") for row in record["kernels"]] == [
        "4.5.0" if table[name].cutlass else None for name in sorted(table)
    ]
    assert compiled(mixed) == ["current"] * len(table)
    assert check(mixed) == 0


def test_what_another_release_compiled_is_not_recorded(mixed: Path) -> None:
    table = Table.read(mixed / "generated" / MODULE / "table.json")
    done = record_build(mixed, "4.5.0")
    others = len(table) - NEEDY
    assert (
        f"{others} kernels not recorded: compiled with CUTLASS 4.5.0, and the project is pinned to 4.2.0"
        in (done.out)
    )
    assert compiled(mixed) == ["current" if table[name].cutlass else "never" for name in sorted(table)]
    done = record_build(mixed, "4.6.0")  # newer than the kernels need, and not what was agreed on
    assert f"{len(table)} kernels not recorded" in done.out
    assert compiled(mixed).count("current") == NEEDY


def test_a_pin_that_overtakes_the_need_makes_the_rows_stale(mixed: Path) -> None:
    record_build(mixed, "4.5.0")
    path = mixed / "pyproject.toml"
    path.write_text(path.read_text().replace("nvidia-cutlass==4.2.0", "nvidia-cutlass==4.6.0"))
    assert compiled(mixed).count("stale") == NEEDY


def test_a_report_of_headers_that_cannot_have_compiled_it_is_refused(mixed: Path) -> None:
    table = Table.read(mixed / "generated" / MODULE / "table.json")
    needy = next(name for name in table if table[name].cutlass)
    unit = _unit(mixed, table, needy, "4.2.0")
    report = {"toolchain": {"nvcc": "1", "host": "g++", "cutlass": "4.2.0"}, "kernels": [unit]}
    path = mixed / "report.json"
    path.write_text(json.dumps(report))
    done = status(mixed, "--record", path)
    assert done.code != 0
    assert f"{needy} needs CUTLASS 4.5, the report is of 4.2.0" in done.err


def test_rows_of_this_repository_are_within_their_bounds() -> None:
    done = status(ROOT, "--check")
    assert done.code == 0, done.out
