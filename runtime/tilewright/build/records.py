"""What is kept of compiled kernels, small enough to commit: benchmarks/results/compile/<module>.json.

A row is of a *source key*: the source, the tilewright headers it reaches, the flags and the CUTLASS release;
no machine, no path, no host compiler. So any machine can tell whether a row is of the kernel as it stands.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tilewright.build.commands import kernel_flags
from tilewright.build.keys import HeaderSet, digest
from tilewright.build.report import tensor_families
from tilewright.errors import BuildError
from tilewright.table import KernelRecord, Table

FORMAT = 1
_KEPT = ("registers", "smem_bytes", "spill_store_bytes", "spill_load_bytes", "stack_bytes", "code_bytes")
_KEPT_LAST = ("grid_dependency", "seconds", "peak_memory_bytes")


class SourceKeys:
    """Computes source keys against one set of headers and one CUTLASS release ("4.2.0")."""

    def __init__(self, include: Path, cutlass_version: str) -> None:
        self.headers = HeaderSet(include)
        self._cutlass = cutlass_version

    def of(self, table: Table, record: KernelRecord) -> str:
        """32 hexadecimal digits. Raises OSError where the source is missing."""
        data = table.source(record).read_bytes()
        return digest(
            "source",
            hashlib.sha256(data).hexdigest(),
            self.headers.digest(self.headers.reached(data)),
            self._cutlass,
            *kernel_flags(record),
        )


def compile_rows(report: Mapping[str, Any], table: Table, keys: SourceKeys) -> list[dict[str, Any]]:
    """The rows of a module, out of a build's report (`tilewright build --report`).

    Kernels that failed have none. Raises BuildError where the report is of other sources than the table's.
    """
    rows = []
    for unit in report["kernels"]:
        if unit["module"] != table.module or unit["name"] not in table or "registers" not in unit:
            continue
        key = keys.of(table, table[unit["name"]])
        if unit["source_key"] != key:
            raise BuildError(
                f"{unit['name']}: the report is of another source than {table.folder} holds now",
                hint="Build again and record that report.",
            )
        rows.append(
            {
                "name": unit["name"],
                "source_key": key,
                **{field: unit[field] for field in _KEPT},
                "tensor_instructions": tensor_families(unit["tensor_instructions"]),
                **{field: unit[field] for field in _KEPT_LAST},
                "findings": [finding["kind"] for finding in unit["findings"]],
            }
        )
    return rows


def merge(path: Path, head: Mapping[str, Any], rows: Iterable[Mapping[str, Any]], table: Table) -> None:
    """Writes a module's record: these rows, and those the file holds of the table's other kernels.

    Rows of another toolchain than `head` names are not kept: the head speaks for all rows.
    """
    before = read(path)
    kept = before["kernels"] if before.get("toolchain") == head["toolchain"] else []
    merged = {row["name"]: row for row in [*kept, *rows] if row["name"] in table}
    write(path, {"format": FORMAT, "module": table.module, **head}, [merged[name] for name in sorted(merged)])


def write(path: Path, head: Mapping[str, Any], rows: Iterable[Mapping[str, Any]]) -> None:
    """Writes a record with one kernel to a line, so that differences read well."""
    opening = json.dumps(dict(head))[:-1]
    body = ",\n".join(f"  {json.dumps(row)}" for row in rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text(f'{opening}, "kernels": [\n{body}\n]}}\n', encoding="utf-8", newline="\n")
    draft.replace(path)


def read(path: Path) -> dict[str, Any]:
    """A record; one without rows where there is none. Raises BuildError where it is not readable."""
    try:
        record: dict[str, Any] = json.loads(path.read_bytes())
        if record["format"] != FORMAT:
            raise BuildError(f"{path}: format {record['format']}, this tilewright reads {FORMAT}")
        for row in record["kernels"]:
            row["name"], row["source_key"]
    except FileNotFoundError:
        return {"format": FORMAT, "kernels": []}
    except (ValueError, KeyError, TypeError) as error:
        raise BuildError(f"{path}: not a record of kernels: {error!r}") from None
    return record
