"""docs/status.md says of every kernel what the committed records say, and nothing that has become untrue."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import pytest
from command_line import ROOT, Result, run_in_a_process

from tilewright.build import records
from tilewright.table import Table
from tilewright_generator import status_page
from tilewright_generator.status import CURRENT, FAILED, NEVER, STALE, Verdict

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
    done = run_in_a_process("status", "--write", "--record", tmp_path / "report.json", "--root", tmp_path)
    assert done.code == 0, done.err
    head = {"format": 1, "gpu": "NVIDIA H200", "driver": "1", "date": "2026-01-01"}
    keys = {unit["name"]: unit["source_key"] for unit in report["kernels"]}
    ran = {"machine_code": CODE, "problems": 9, "max_error": 1e-3, "passed": True}
    checks = [{"name": name, "source_key": key, **ran} for name, key in keys.items()]
    records.write(tmp_path / "benchmarks/results/gpu/h200.json", head, checks)
    assert run_in_a_process("status", "--write", "--root", tmp_path).code == 0
    return tmp_path


def _unit(project: Path, table: Table, name: str, release: str = "4.2.0") -> dict[str, object]:
    return {
        "name": name,
        "module": table.module,
        "source_key": records.SourceKeys(project / "runtime" / "include", release).of(table, table[name]),
        "machine_code": CODE,
        **dict.fromkeys(("spill_store_bytes", "spill_load_bytes", "stack_bytes"), 0),
        **{"registers": 168, "smem_bytes": 1, "code_bytes": 2, "seconds": 40.0, "peak_memory_bytes": 3},
        "tensor_instructions": {"HGMMA.64x8x16.F32.BF16": 4},
        "grid_dependency": {"ACQBULK": 1},
        "findings": [],
    }


def page(project: Path) -> str:
    return (project / "docs" / "status.md").read_text(encoding="utf-8")


def first_row(project: Path) -> str:
    return next(line for line in page(project).splitlines() if line.startswith("| `"))


def check(project: Path) -> int:
    return run_in_a_process("status", "--check", "--root", project).code


def test_says_what_the_records_say(project: Path) -> None:
    kernels = len(Table.read(project / "generated" / MODULE / "table.json"))
    assert f"| [{MODULE}](#{MODULE}) | {kernels} | {kernels} | 0 | 0 | {kernels} | 0 | 0 |" in page(project)
    assert "` | current | 168 | 1 | 0 | HGMMA | NVIDIA H200, current | 9 | 1.0e-03 |" in first_row(project)
    assert check(project) == 0


def verdict(name: str, target: str, compiled: str, run: str) -> Verdict:
    return Verdict(name, target, compiled, run)


def test_counts_add_up_by_module_and_by_target() -> None:
    one = [verdict("x", "sm_90a", CURRENT, STALE), verdict("y", "sm_120f", NEVER, NEVER)]
    two = [verdict("z", "sm_90a", STALE, FAILED)]
    lines = status_page.page([("one", one), ("two", two)]).splitlines()
    tables = [line for line in lines if line.startswith("| ") and "`" not in line]
    assert tables[1:5] == [
        "| [one](#one) | 2 | 1 | 0 | 1 | 0 | 1 | 0 | 1 |",
        "| [two](#two) | 1 | 0 | 1 | 0 | 0 | 0 | 1 | 0 |",
        "| **all** | **3** | **1** | **1** | **1** | **0** | **1** | **1** | **1** |",
        tables[0].replace("module", "target"),
    ]
    assert tables[5:8] == [
        "| sm_90a | 2 | 1 | 1 | 0 | 0 | 1 | 1 | 0 |",
        "| sm_120f | 1 | 0 | 0 | 1 | 0 | 0 | 0 | 1 |",
        tables[3],
    ]


def test_kernels_of_a_module_are_folded_under_its_heading(project: Path) -> None:
    kernels = len(Table.read(project / "generated" / MODULE / "table.json"))
    _, _, details = page(project).partition(f"\n## {MODULE}\n\n")
    head, _, rest = details.partition("\n\n")
    told = f"{kernels} kernels; compiled: {kernels} current; run: {kernels} current"
    assert head == f"<details><summary>{told}</summary>"
    table, _, after = rest.partition("\n\n</details>\n")
    assert (len(table.splitlines()), after) == (2 + kernels, "")


def test_the_command_counts_by_module_and_target_and_says_where_the_kernels_are(project: Path) -> None:
    kernels = len(Table.read(project / "generated" / MODULE / "table.json"))
    rewrite(project, lambda row: row.update(passed=False))
    done = run_in_a_process("status", "--root", project)
    told = f"{kernels} kernels; compiled: {kernels} current; run: {kernels - 1} current, 1 failed"
    lines = [" ".join(line.split()) for line in done.out.splitlines() if line]
    assert lines[:4] == [f"{MODULE} {told}", f"all {told}", f"sm_90a {told}", f"all {told}"]
    assert "docs/status.md has each kernel" in lines[4]
    assert done.code == 0


def test_a_missing_row_fails(project: Path) -> None:
    path = project / "docs" / "status.md"
    path.write_text(page(project).replace(first_row(project) + "\n", ""), encoding="utf-8")
    assert check(project) == 1


@pytest.mark.parametrize("what", ["runtime/include/tilewright/gemm/args.h", "source", "pyproject.toml"])
def test_an_outdated_row_shown_as_current_fails(project: Path, what: str) -> None:
    name = first_row(project).split("`")[1]
    path = project / (f"generated/{MODULE}/{name}.cu" if what == "source" else what)
    text = path.read_text(encoding="utf-8")
    text = (
        text.replace("nvidia-cutlass==4.2.0", "nvidia-cutlass==4.3.0")
        if "toml" in what
        else text + "\n// x\n"
    )
    path.write_text(text, encoding="utf-8")
    assert check(project) == 1
    assert run_in_a_process("status", "--write", "--root", project).code == 0
    assert "| stale | 168 |" in first_row(project)
    assert "NVIDIA H200, stale" in first_row(project)


def rewrite(project: Path, change: Callable[[dict[str, Any]], None], name: str = "h200") -> dict[str, Any]:
    """Changes the first row of the H200's record, and writes it as the record `name`; what it was."""
    folder = project / "benchmarks/results/gpu"
    record = records.read(folder / "h200.json")
    row, *others = record.pop("kernels")
    changed = dict(row)
    change(changed)
    head = {key: value for key, value in record.items() if name == "h200" or key != "gpu"}
    rows = [changed, *others] if name == "h200" else [changed]
    records.write(folder / f"{name}.json", {"gpu": f"NVIDIA {name.upper()}", **head}, rows)
    run_in_a_process("status", "--write", "--root", project)
    return dict(row)


def test_a_failed_run_is_shown_as_failed(project: Path) -> None:
    rewrite(project, lambda row: row.update(passed=False, max_error=None, problems=0))
    kernels = len(Table.read(project / "generated" / MODULE / "table.json"))
    assert first_row(project).endswith("| NVIDIA H200, failed | 0 |  |")
    assert f"| {kernels} | 0 | 0 | {kernels - 1} | 0 | 1 | 0 |" in page(project)
    done = run_in_a_process("status", "--check", "--root", project)
    assert done.code == 1
    assert f"{first_row(project).split('`')[1]}: its last run on a GPU failed" in done.out


@pytest.mark.parametrize("date", ["2025-06-06", "2027-06-06"])
def test_a_failure_is_not_hidden_by_a_pass_on_another_gpu(project: Path, date: str) -> None:
    rewrite(project, lambda row: row.update(passed=False, date=date), "h100")
    assert "| NVIDIA H100, failed |" in first_row(project)


def test_a_failure_of_another_source_is_behind_a_pass_of_this_one(project: Path) -> None:
    rewrite(project, lambda row: row.update(passed=False, **OLD, date="2027-06-06"), "h100")
    assert "| NVIDIA H200, current |" in first_row(project)
    rewrite(project, lambda row: row.update(OLDER))
    assert "| NVIDIA H100, failed |" in first_row(project)


@pytest.mark.parametrize("date", ["2025-06-06", "2027-06-06"])
def test_a_run_of_this_source_counts_whatever_is_newer(project: Path, date: str) -> None:
    rewrite(project, lambda row: row.update(**OLD, problems=5, date=date), "h100")
    assert "| NVIDIA H200, current | 9 |" in first_row(project)


def test_of_runs_that_count_alike_the_newest_is_shown(project: Path) -> None:
    for problems, date in ((5, "2025-06-06"), (6, "2027-06-06")):
        rewrite(project, lambda row, p=problems, d=date: row.update(problems=p, date=d), "h100")  # type: ignore[misc]
        assert ("| NVIDIA H100, current | 6 |" in first_row(project)) == (date > "2026")


def compiled_anew(project: Path, code: str | None) -> None:
    """Edits a header that all kernels reach, and records what they were compiled to since."""
    with (project / "runtime/include/tilewright/epilogue.hpp").open("a") as header:
        header.write("// edited\n")
    table = Table.read(project / "generated" / MODULE / "table.json")
    units = [_unit(project, table, name) for name in table]
    for each in units:
        each.pop("machine_code")
        each.update({} if code is None else {"machine_code": code})
    report = {"toolchain": {"nvcc": "13.0.88", "host": "g++ 12", "cutlass": "4.2.0"}, "kernels": units}
    (project / "report.json").write_text(json.dumps(report))
    done = run_in_a_process("status", "--write", "--record", project / "report.json", "--root", project)
    assert done.code == 0, done.err


@pytest.mark.parametrize(
    ("code", "word"), [(CODE, "current"), ("1" * 32, "stale"), ("", "stale"), (None, "stale")]
)
def test_a_run_counts_as_long_as_the_machine_code_is_what_ran(
    project: Path, code: str | None, word: str
) -> None:
    compiled_anew(project, code)
    assert "` | current |" in first_row(project)
    assert f"| NVIDIA H200, {word} |" in first_row(project)


def test_a_run_without_machine_code_counts_by_its_source_alone(project: Path) -> None:
    compiled_anew(project, "")
    rewrite(project, lambda row: row.update(machine_code=""))
    assert "| NVIDIA H200, stale |" in first_row(project)


def test_what_was_compiled_before_an_edit_does_not_vouch_for_a_run(project: Path) -> None:
    with (project / "runtime/include/tilewright/epilogue.hpp").open("a") as header:
        header.write("// edited\n")
    run_in_a_process("status", "--write", "--root", project)
    assert "` | stale |" in first_row(project)
    assert "| NVIDIA H200, stale |" in first_row(project)


def allow(project: Path, text: str) -> Result:
    (project / "benchmarks/results/stale.json").write_text(text)
    return run_in_a_process("status", "--check", "--root", project)


def test_rows_that_are_stale_are_counted(project: Path) -> None:
    """One header edited, and as many rows as it reaches say something of the past."""
    kernels = len(Table.read(project / "generated" / MODULE / "table.json"))
    assert allow(project, '{"compiled": 0, "run": 0}').code == 0
    with (project / "runtime/include/tilewright/epilogue.hpp").open("a") as header:
        header.write("// edited\n")
    run_in_a_process("status", "--write", "--root", project)
    done = allow(project, f'{{"compiled": {kernels - 1}, "run": {kernels}}}')
    assert done.code == 1
    assert f"{kernels} rows of what was compiled are stale, and {kernels - 1} may be" in done.out
    assert "of what was run" not in done.out
    done = allow(project, f'{{"compiled": {kernels}, "run": {kernels - 1}}}')
    assert f"{kernels} rows of what was run are stale, and {kernels - 1} may be" in done.out
    assert allow(project, f'{{"compiled": {kernels}, "run": {kernels}}}').code == 0
    released = run_in_a_process("status", "--check", "--release", "--root", project)
    assert released.code == 1
    assert f"{kernels} rows of what was run are stale, and 0 may be" in released.out


def test_a_failed_row_is_allowed_by_name_alone_and_while_it_fails(project: Path) -> None:
    name = first_row(project).split("`")[1]
    listed = f'{{"compiled": 0, "run": 0, "failed": {{"{name}": "what was wrong"}}}}'
    done = allow(project, listed)
    assert (done.code, f"{name}: stale.json lists it as failed, and it is not" in done.out) == (1, True)
    rewrite(project, lambda row: row.update(passed=False))
    run_in_a_process("status", "--write", "--root", project)
    assert allow(project, '{"compiled": 0, "run": 0}').code == 1
    assert allow(project, listed.replace(name, f"{name}_")).code == 1
    done = allow(project, listed)
    assert done.code == 0, done.out
    assert run_in_a_process("status", "--check", "--release", "--root", project).code == 1


def test_a_release_is_checked_not_written(project: Path) -> None:
    done = run_in_a_process("status", "--write", "--release", "--root", project)
    assert (done.code, "--release goes with --check" in done.err) == (2, True)


@pytest.mark.parametrize(
    "text", ["", "[]", '{"compiled": 1}', '{"compiled": -1, "run": 0}', '{"compiled": true, "run": 0}']
)
def test_a_count_that_is_none_is_refused(project: Path, text: str) -> None:
    done = allow(project, text)
    assert done.code == 2
    assert "stale.json" in done.err


def test_a_report_of_other_sources_is_refused(project: Path) -> None:
    name = first_row(project).split("`")[1]
    with (project / f"generated/{MODULE}/{name}.cu").open("a") as source:
        source.write("// edited\n")
    done = run_in_a_process("status", "--record", project / "report.json", "--root", project)
    assert done.code != 0
    assert "another source" in done.err


@pytest.mark.parametrize("field", ["registers", "grid_dependency", "peak_memory_bytes"])
def test_a_report_that_lacks_a_number_of_a_kernel_is_refused(project: Path, field: str) -> None:
    """It has all of them, or none of a kernel that did not compile."""
    path = project / "report.json"
    report = json.loads(path.read_text(encoding="utf-8"))
    del report["kernels"][0][field]
    path.write_text(json.dumps(report), encoding="utf-8")
    done = run_in_a_process("status", "--record", path, "--root", project)
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
    return run_in_a_process("status", "--write", "--record", path, "--root", project)


def compiled(project: Path) -> list[str]:
    """What the page says of each kernel, in their order: current, stale or never compiled."""
    return [line.split(" | ")[1] for line in page(project).splitlines() if line.startswith("| `")]


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
    assert check(mixed) == 1
    run_in_a_process("status", "--write", "--root", mixed)
    assert compiled(mixed).count("stale") == NEEDY


def test_a_report_of_headers_that_cannot_have_compiled_it_is_refused(mixed: Path) -> None:
    table = Table.read(mixed / "generated" / MODULE / "table.json")
    needy = next(name for name in table if table[name].cutlass)
    unit = _unit(mixed, table, needy, "4.2.0")
    report = {"toolchain": {"nvcc": "1", "host": "g++", "cutlass": "4.2.0"}, "kernels": [unit]}
    path = mixed / "report.json"
    path.write_text(json.dumps(report))
    done = run_in_a_process("status", "--record", path, "--root", mixed)
    assert done.code != 0
    assert f"{needy} needs CUTLASS 4.5, the report is of 4.2.0" in done.err


def test_this_repository_is_in_step() -> None:
    done = run_in_a_process("status", "--check", "--root", ROOT)
    assert done.code == 0, done.out
