"""A module's dispatch table, for tools and people: a row for each kernel."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

from tilewright.base import plugins, reading
from tilewright.base.schema import Schema
from tilewright.compile.compilers import COMPILERS
from tilewright.configurations import rows
from tilewright.configurations.family import Family
from tilewright.declarations import catalog
from tilewright.declarations.table import DEFAULT_COMPILER, row_schema
from tilewright.errors import UnreadableFileError
from tilewright_generator.errors import InternalError, UsageError, mistake
from tilewright_generator.expand import Kernel
from tilewright_generator.spec import Spec

TABLE_FORMAT = 1

_RELEASE = re.compile(r"\d+\.\d+(\.\d+)?")
_encode = json.JSONEncoder(ensure_ascii=False).encode


def source_name(family: Family, name: str, build: Mapping[str, Any]) -> str:
    """The file of a kernel's source in its module's folder; `build` is what the family says of it."""
    compiler = build.get("compiler", DEFAULT_COMPILER)
    if compiler not in COMPILERS:
        message = f"{name}: {compiler!r} is no compiler; there are {', '.join(COMPILERS)}"
        raise mistake(family.name, message)
    return f"{name}{COMPILERS[compiler].suffix}"


def record(family: Family, kernel: Kernel, build: Mapping[str, Any], source: str, sha256: str) -> str:
    """The kernel's row of table.json, on one line: all that the build and the runtime know of it."""
    row: dict[str, Any] = {"name": kernel.name, "source": source, "sha256": sha256, **build}
    if "cutlass" in row and not _RELEASE.fullmatch(row["cutlass"]):
        message = f"{kernel.name}: {row['cutlass']!r} is not a CUTLASS release such as '4.5'"
        raise mistake(family.name, message)
    config = ", ".join([_member(name, value) for name, value in rows.written(kernel.config).items()])
    line = f'{_encode(row)[:-1]}, "config": {{{config}}}, "facts": {_encode(family.facts(kernel.config))}}}'
    _check(family, kernel, line)
    return line


def _check(family: Family, kernel: Kernel, line: str) -> None:
    """Raises an error if the runtime would not read the row, because the family's kernels are not as its
    `FACTS` declare."""
    try:
        reading.check("its row", reading.loads("its row", line), _row_schema(family.name))
    except UnreadableFileError as error:
        code = getattr(family.facts, "__code__", None)
        place = "" if code is None else f"{code.co_filename}:{code.co_firstlineno}: "
        message = f"{place}{kernel.name}: {error.message}"
        if family.name not in plugins.families():
            raise InternalError(message) from None
        declared = catalog.configuration_of(family.name).__file__
        raise UsageError(
            f"{message}\n{declared} declares what facts hold (FACTS): make the two agree"
        ) from None


@cache
def _row_schema(family: str) -> Schema:
    schema, _ = row_schema(family)
    return schema


@cache
def _member(name: str, value: Any) -> str:
    """A field with its value as JSON; the same few make up all rows."""
    return f"{_encode(name)}: {_encode(value)}"


def table_json(spec: Spec, records: Iterable[str]) -> str:
    """table.json, one kernel to a line, so that its diff is readable."""
    head = {"format": TABLE_FORMAT, "module": spec.module, "family": spec.family.name, "spec": spec.path}
    return f'{_encode(head)[:-1]}, "kernels": [\n' + ",\n".join(records) + "\n]}\n"
