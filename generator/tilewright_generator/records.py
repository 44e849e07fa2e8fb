"""What is kept of compiled kernels, small enough to commit: benchmarks/results/compile/<module>.json.

A row belongs to a *source key*: what the source and the tilewright headers that it reaches tell the compiler
(compile/meaning.py), the flags and the CUTLASS release. It holds no comment, path, machine or host compiler.
So any machine can tell whether a row describes the kernel as it stands, also where the kernel needs a newer
CUTLASS than the one that the project is pinned to (`keyed_release`).

`machine_code` is the digest of what nvcc made of it (compile/nvcc/disassembly.py). A record of a GPU's run
has it, too: what ran there is what a kernel is now as long as its machine code is, however its headers are
put.

The head of a record says with what its rows were compiled. A row says itself where that differs: in `cutlass`
the release that its kernel needs, in `host` another host compiler (which a source key does not hold, since
the machine code that is recorded is nvcc's).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from tilewright.base import reading, writing
from tilewright.compile.nvcc.cutlass import keyed_release, satisfies
from tilewright.compile.report import tensor_families
from tilewright.compile.schemas import ANY_FORMAT, MEASURED
from tilewright.compile.source_keys import SourceKeys
from tilewright.declarations.table import Table
from tilewright.errors import BuildError, UnreadableFileError
from tilewright_generator.record_schemas import BUILD_REPORT, COMPILED_RECORD, RUN_RECORD

FORMAT = 1
_OWN = ("cutlass", "host")  # words of the toolchain that a row may say instead of the head
_KEPT = ("registers", "smem_bytes", "spill_store_bytes", "spill_load_bytes", "stack_bytes", "code_bytes")
_KEPT_LAST = ("grid_dependency", "seconds", "peak_memory_bytes")


def of_another_release(report: Mapping[str, Any], table: Table, pinned: str) -> frozenset[str]:
    """The module's kernels that a report has of another CUTLASS release than records are kept of.

    That is `pinned` ("" for whatever there is), and for a kernel that needs more than it, what it needs.
    """
    if not pinned:
        return frozenset()
    release = report["toolchain"]["cutlass"]
    return frozenset(
        unit["name"]
        for unit in _compiled(report, table)
        if keyed_release(release, table[unit["name"]].cutlass)
        != keyed_release(pinned, table[unit["name"]].cutlass)
    )


def compile_rows(
    report: Mapping[str, Any], table: Table, keys: SourceKeys, leave: Collection[str] = ()
) -> list[dict[str, Any]]:
    """The rows of a module from a build's report (`tilewright build --report`), without the kernels in
    `leave`. Kernels that failed have no row.

    Raises BuildError if the report is of other sources than the table's, or of a kernel that its CUTLASS
    release cannot have compiled.
    """
    rows = []
    release = report["toolchain"]["cutlass"]
    for unit in _compiled(report, table):
        record = table[unit["name"]]
        if record.name in leave:
            continue
        key = keys.of(table, record)
        if unit["source_key"] != key:
            raise BuildError(
                f"{unit['name']}: the report is of another source than {table.folder} holds now",
                hint="Build again and record that report.",
            )
        if not satisfies(release, record.cutlass):
            raise BuildError(
                f"{record.name} needs CUTLASS {record.cutlass}, the report is of {release}",
                hint=f"Build with headers of CUTLASS {record.cutlass} or newer, and record that report.",
            )
        rows.append(
            {
                "name": unit["name"],
                "source_key": key,
                **({"machine_code": unit["machine_code"]} if "machine_code" in unit else {}),
                **{field: unit[field] for field in _KEPT},
                "tensor_instructions": tensor_families(unit["tensor_instructions"]),
                **{field: unit[field] for field in _KEPT_LAST},
                "findings": [finding["kind"] for finding in unit["findings"]],
            }
        )
    return rows


def _compiled(report: Mapping[str, Any], table: Table) -> Iterator[Mapping[str, Any]]:
    """What a report has of the module's kernels that were compiled."""
    for unit in report["kernels"]:
        if unit["module"] == table.module and unit["name"] in table and "registers" in unit:
            yield unit


def merge(path: Path, head: Mapping[str, Any], rows: Iterable[Mapping[str, Any]], table: Table) -> None:
    """Writes a module's record: these rows, and those the file holds of the table's other kernels.

    Rows of another nvcc than `head` names are not kept. Nor are those of another CUTLASS release, except for
    kernels that need a certain one. A row states what may differ from the head in its toolchain (`_OWN`).
    """
    before, added = read(path), list(rows)
    toolchain, old = dict(head["toolchain"]), before.get("toolchain", {})
    kept = before["kernels"] if old.get("nvcc") == toolchain["nvcc"] else []
    merged: dict[str, dict[str, Any]] = {}
    for words, group in ((old, kept), (toolchain, added)):
        own = {word: words.get(word, "") for word in _OWN}
        merged |= {row["name"]: {**own, **row} for row in group if row["name"] in table}
    free = [name for name in merged if not table[name].cutlass]  # that any release compiles
    if free and not any(row["name"] in free for row in added):
        toolchain["cutlass"] = old["cutlass"]
    rows_kept = [
        _under(merged[name], toolchain)
        for name in sorted(merged)
        if table[name].cutlass or merged[name]["cutlass"] == toolchain["cutlass"]
    ]
    write(path, {"format": FORMAT, "module": table.module, **head, "toolchain": toolchain}, rows_kept)


def _under(row: Mapping[str, Any], toolchain: Mapping[str, str]) -> dict[str, Any]:
    """The row without what the head of this toolchain states."""
    own = {word: row[word] for word in _OWN if row[word] != toolchain[word]}
    return {name: value for name, value in row.items() if name not in _OWN} | own


def write(path: Path, head: Mapping[str, Any], rows: Iterable[Mapping[str, Any]]) -> None:
    """Writes a record with one kernel to a line, so that a diff is readable."""
    opening = json.dumps(dict(head))[:-1]
    body = ",\n".join(f"  {json.dumps(row)}" for row in rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    writing.write(path, f'{opening}, "kernels": [\n{body}\n]}}\n')


def read(path: Path) -> dict[str, Any]:
    """A record; one without rows if the file does not exist. Raises UnreadableFileError if it is not a
    record."""
    try:
        record: dict[str, Any] = reading.load_json(path, ANY_FORMAT)
    except FileNotFoundError:
        return {"format": FORMAT, "kernels": []}
    if record["format"] != FORMAT:
        raise UnreadableFileError(path, f"format {record['format']}, this tilewright reads {FORMAT}")
    reading.check(path, record, RUN_RECORD if "gpu" in record else COMPILED_RECORD)
    return record


def read_report(path: Path) -> dict[str, Any]:
    """What `tilewright build --report` wrote. Raises UnreadableFileError."""
    try:
        report: dict[str, Any] = reading.load_json(path, BUILD_REPORT)
    except FileNotFoundError:
        raise UnreadableFileError(path, "no such file") from None
    for place, unit in enumerate(report["kernels"]):  # all of it, or nothing of one that did not compile
        missing = [name for name in MEASURED if name not in unit]
        if 0 < len(missing) < len(MEASURED):
            raise UnreadableFileError(path, f"kernels[{place}]: {missing[0]} is missing")
    return report
