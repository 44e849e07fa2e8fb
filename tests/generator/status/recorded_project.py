"""A project whose one module was compiled and run, and edits of its records."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

from command_line import Result

from tilewright.compile.source_keys import SourceKeys
from tilewright.declarations.table import Table
from tilewright_generator import cli, records

MODULE = "sm90_gemm_tf32_s8"
CODE = "0" * 32
OLD, OLDER = ({"source_key": word, "machine_code": word} for word in ("old", "older"))


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
    """What `tilewright status` answers, in this process: the tests ask a hundred times."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = cli.invoke(["status", *map(str, arguments), "--root", str(project)])
    return Result(code, out.getvalue(), err.getvalue())


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


def hammer(project: Path, **changes: object) -> None:
    """Records that the first kernel was hammered, as it is now but for the changes."""

    def change(row: dict[str, Any]) -> None:
        made_of = {name: row[name] for name in ("source_key", "machine_code")}
        row["hammered"] = {**made_of, "date": "2026-02-02", "runs": 2000, "wrong": 0, **changes}

    rewrite(project, change)


def allow(project: Path, text: str) -> Result:
    (project / "benchmarks/results/stale.json").write_text(text)
    return status(project, "--check")
