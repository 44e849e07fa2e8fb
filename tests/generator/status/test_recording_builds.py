"""`tilewright status --record`: which reports of builds become records, and how these merge."""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection
from pathlib import Path

import pytest
from command_line import Result
from recorded_project import MODULE, _unit, check, first, rows, status

from tilewright.declarations.table import Table
from tilewright_generator import records


@pytest.mark.parametrize("name", ["compile", "", f"compile/{MODULE}.json"])
def test_a_record_is_written_through_no_link(
    project: Path, name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    link = project / "benchmarks/results" / name
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "moved"
    link.rename(elsewhere)
    link.symlink_to(elsewhere)
    before = {path: path.read_bytes() for path in elsewhere.rglob("*") if path.is_file()}
    actual = status(project, "--record", project / "report.json")
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
