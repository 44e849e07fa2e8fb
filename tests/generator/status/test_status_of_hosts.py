"""`tilewright status`: host code that no kernel of a module has run with."""

from __future__ import annotations

from pathlib import Path

from recorded_project import MODULE, allow, rewrite, rows, status

from tilewright.compile.source_keys import HostKeys
from tilewright.declarations.table import Table
from tilewright_generator import records

NONE_STALE = '{"compiled": 0, "run": 0, "host": 0}'
ONE_STALE = NONE_STALE.replace('"host": 0', '"host": 1')
FAULT = f"the host code of 1 module is stale, and 0 may be: {MODULE}"


def edit_host(project: Path) -> None:
    """Edits a header of the module's table, which no kernel's source reaches."""
    with (project / "runtime/include/tilewright/launcher.hpp").open("a") as header:
        header.write("inline int edited() { return 1; }\n")


def host_key(project: Path) -> str:
    """The host key of the first kernel."""
    table = Table.read(project / "generated" / MODULE / "table.json")
    return HostKeys(project / "runtime/include").of(table, table[min(table)])


def hosts(project: Path) -> list[str]:
    return [row["host"] for row in rows(project)]


def test_changed_host_code_makes_no_kernel_stale_and_has_a_bound_of_its_own(project: Path) -> None:
    assert set(hosts(project)) == {"current"}
    assert allow(project, NONE_STALE).code == 0
    edit_host(project)
    assert {(row["compiled"], row["run"], row["host"]) for row in rows(project)} == {
        ("current", "current", "stale")
    }
    assert f"host, stale: 1 module: {MODULE}" in status(project).out
    done = allow(project, NONE_STALE)
    assert (done.code, done.out.strip()) == (1, FAULT)
    assert allow(project, ONE_STALE).code == 0
    done = status(project, "--check", "--release")
    assert (done.code, done.out.strip()) == (1, FAULT)
    assert allow(project, '{"compiled": 0, "run": 0}').code == 0, "a project that bounds no host code"


def test_one_kernel_that_passes_renews_its_module(project: Path) -> None:
    edit_host(project)
    key = host_key(project)
    rewrite(project, lambda row: row.update(host_key=key))
    others = len(rows(project)) - 1
    assert hosts(project) == ["current", *["stale"] * others]
    assert allow(project, NONE_STALE).code == 0
    assert "host, stale" not in status(project).out


def test_a_run_on_any_gpu_renews_it_and_a_failure_does_not(project: Path) -> None:
    edit_host(project)
    key = host_key(project)
    rewrite(project, lambda row: row.update(host_key=key, passed=False), "h100")
    assert hosts(project)[0] == "stale"
    rewrite(project, lambda row: row.update(host_key=key, date="2025-01-01"), "h100")
    assert hosts(project)[0] == "current"


def test_a_row_of_unknown_host_code_proves_nothing(project: Path) -> None:
    path = project / "benchmarks/results/gpu/h200.json"
    record = records.read(path)
    first, *others = record.pop("kernels")
    for row in others:
        del row["host_key"]
    records.write(path, record, [first, *others])
    assert hosts(project) == ["current", *["never"] * len(others)]
    assert allow(project, NONE_STALE).code == 0
    rewrite(project, lambda row: row.pop("host_key"))
    assert set(hosts(project)) == {"never"}
    assert FAULT in allow(project, NONE_STALE).out


def test_a_module_that_never_ran_is_no_fault(project: Path) -> None:
    (project / "benchmarks/results/gpu/h200.json").unlink()
    assert set(hosts(project)) == {"never"}
    assert allow(project, NONE_STALE).code == 0
