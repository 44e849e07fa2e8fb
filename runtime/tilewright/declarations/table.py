"""The dispatch table of a module, `generated/<module>/table.json`.

The generator writes one kernel to a line. Reading a table only splits it into lines and finds their names
(20,000 kernels take 30 ms); a row is parsed when it is asked for.
"""

import functools
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, overload

from tilewright.base import paths, reading, sets
from tilewright.base.mismatch import shown
from tilewright.base.schema import Anything, Array, Enum, Integer, Map, Object, Pattern, Schema, String
from tilewright.errors import TableError, UnreadableFileError

FORMAT = 1
DEFAULT_COMPILER = "nvcc"
COMPILERS = (DEFAULT_COMPILER, "host", "cute_dsl")  # that a row may name; compile/compilers.py has them
_TARGET = r"sm_\d{2,3}[af]?"
NAME = String(r"[A-Za-z_]\w*", "a name of letters, digits and _")
HEAD = Object(
    {
        "format": Integer(),
        "module": String("[a-z][a-z0-9_]*", "a module's name"),
        "family": String("[a-z][a-z0-9_]*", "a family's name"),
        "kernels": Array(Object({"name": NAME}, others=Anything())),
    },
    optional={"spec": String()},
)
# A row of any family. The family's own schemas check `config` and `facts` (`catalog.row_of`).
ROW: dict[str, Schema] = {
    "name": NAME,
    "source": String(r"[\w.-]+", "a file's name"),
    "sha256": String(),
    "arch": String(_TARGET, "a target such as sm_90a"),
    "defines": Array(String()),
    "instructions": Array(Pattern()),
    "config": Map(Anything()),
    "facts": Map(Anything()),
}
OPTIONAL: dict[str, Schema] = {
    "cutlass": String(r"\d+\.\d+(\.\d+)?", "a release such as 4.5"),
    "standard": String(r"c\+\+1[47]", "c++14 or c++17"),
    "spills": String(),
    "releases": String(),
    "early_loads": String(),
    "compiler": Enum(COMPILERS),
}
_START = '{"name": "'
_END = "\n]}\n"
_ARCH = '"arch": "'
_COMPILER = '"compiler": "'


class KernelRecord(NamedTuple):
    """One row: a kernel, what it computes and how it is compiled."""

    name: str
    source: str  # file beside the table
    sha256: str  # of the source's bytes
    arch: str  # the target that it is compiled for, e.g. "sm_90a"
    defines: tuple[str, ...]  # "NAME" or "NAME=VALUE"
    instructions: tuple[str, ...]  # regular expressions; each must match the start of an opcode of its SASS
    config: Mapping[str, Any]
    facts: Mapping[str, Any]
    cutlass: str = ""  # the oldest CUTLASS release that it compiles with, e.g. "4.5"; "": any
    standard: str = "c++17"  # the C++ standard of its source and of the headers that it includes
    spills: str = ""  # why it may spill registers; "" if it may not
    releases: str = ""  # why it may give stages back before loads from them return; "" if it may not
    early_loads: str = ""  # why it may load operands before the previous kernel ends; "" if it may not
    compiler: str = DEFAULT_COMPILER  # by which it is compiled

    @classmethod
    def parse(cls, row: Mapping[str, Any]) -> "KernelRecord":
        return cls(
            name=row["name"],
            source=row["source"],
            sha256=row["sha256"],
            arch=row["arch"],
            defines=tuple(row["defines"]),
            instructions=tuple(row["instructions"]),
            config=row["config"],
            facts=row["facts"],
            cutlass=row.get("cutlass", ""),
            standard=row.get("standard", "c++17"),
            spills=row.get("spills", ""),
            releases=row.get("releases", ""),
            early_loads=row.get("early_loads", ""),
            compiler=row.get("compiler", DEFAULT_COMPILER),
        )


class Table(Mapping[str, KernelRecord]):
    """A module's kernels by name, in the table's order."""

    def __init__(self, path: Path, text: str) -> None:
        self.path = path
        self._rows: dict[str, Any] = {}  # a line (str) until it is asked for, then a KernelRecord
        head = self._split(text)
        self.module: str = head["module"]
        self.family: str = head["family"]
        self.spec: str = head.get("spec", "")
        self._row: Schema | None = None  # the family's, set when a row is first asked for
        self._defaults: Mapping[str, Any] = {}  # for fields of `config`, set with it

    @classmethod
    def read(cls, path: Path) -> "Table":
        """Reads a table.json. Raises TableError if it is missing or not a table."""
        try:
            return cls(path, reading.text(path))
        except FileNotFoundError:
            raise TableError(f"{path}: no such file", hint="Run `tilewright generate` to write it.") from None
        except UnreadableFileError as error:
            raise TableError(
                f"{path}: not a dispatch table: {error.reason}",
                hint="`tilewright generate` writes it again, with --force if somebody has edited it.",
            ) from None

    @property
    def folder(self) -> Path:
        """The folder of the sources."""
        return self.path.parent

    def source(self, record: KernelRecord) -> Path:
        return self.folder / record.source

    def arch(self, name: str) -> str:
        """A kernel's target, found without parsing its row."""
        row = self._rows[name]
        at = row.find(_ARCH) if isinstance(row, str) else -1
        target = row[at + len(_ARCH) : row.find('"', at + len(_ARCH))] if at >= 0 else ""
        return target if _is_target(target) else self[name].arch

    @functools.cached_property
    def compiler(self) -> str:
        """The compiler of the module: the first that a row names, without rows being parsed."""
        for row in self._rows.values():
            if isinstance(row, str):
                at = row.find(_COMPILER)
                name = row[at + len(_COMPILER) : row.find('"', at + len(_COMPILER))] if at >= 0 else ""
            else:
                name = row.compiler if isinstance(row, KernelRecord) else row.get("compiler", "")
            if name in COMPILERS and name != DEFAULT_COMPILER:
                return name
        return DEFAULT_COMPILER

    def containing(self, names: Sequence[str], text: str) -> list[str]:
        """The kernels whose row contains the text, and the kernels whose row is parsed already."""
        rows = self._rows
        return [name for name in names if type(row := rows[name]) is not str or text in row]

    def __getitem__(self, name: str) -> KernelRecord:
        row = self._rows[name]
        if not isinstance(row, KernelRecord):
            row = self._rows[name] = self._record(name, row)
        return row

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def _split(self, text: str) -> Any:
        """Fills `_rows`, and returns the table without its kernels."""
        start, end = text.find("\n") + 1, text.rfind("]")
        if text.endswith(
            _END
        ):  # the generator's layout: split without a copy of the text, which may be 14 MB
            lines = text.split("\n")[1 : -_END.count("\n")]
        else:
            lines = text[start:end].strip().split("\n")
        names = [_leading_name(line) for line in lines]
        by_lines = 0 < start < end and all(names)  # one kernel to a line
        whole = reading.loads(self.path, text[:start] + text[end:] if by_lines else text)
        if isinstance(whole, dict) and isinstance(number := whole.get("format"), int) and number != FORMAT:
            raise TableError(
                f"{self.path}: table format {shown(number)}, this tilewright reads {FORMAT}",
                hint="Run `tilewright generate` with the tilewright that builds it.",
            )
        reading.check(self.path, whole, HEAD)
        if by_lines:
            self._fill(names, lines)
        else:
            self._fill([row["name"] for row in whole["kernels"]], whole["kernels"])
        return whole

    def _fill(self, names: list[str], rows: list[Any]) -> None:
        self._rows = dict(zip(names, rows, strict=True))
        if len(self._rows) != len(names):
            duplicate = next(name for name, count in Counter(names).items() if count > 1)
            raise TableError(f"{self.path}: two kernels are named {duplicate}")

    def _record(self, name: str, row: str | Mapping[str, Any]) -> KernelRecord:
        place = f"{self.path}: the row of {name}"
        try:
            content = reading.loads(place, row.rstrip(" \r,")) if isinstance(row, str) else row
            if self._row is None:
                self._row, self._defaults = row_schema(self.family)
            reading.check(place, content, self._row)
        except UnreadableFileError as error:
            raise TableError(
                error.message,
                hint="`tilewright check` says whether the table or the family that made it is at fault.",
            ) from None
        if content["name"] != name:
            raise TableError(f"{place} is of {content['name']}")
        if lacking := self._defaults.keys() - content["config"].keys():
            config = {**content["config"], **{name: self._defaults[name] for name in lacking}}
            return KernelRecord.parse({**content, "config": config})
        return KernelRecord.parse(content)


def row_schema(family: str) -> tuple[Object, Mapping[str, Any]]:
    """The schema of a row of the family's tables (for a family that is not known here, that of any row), and
    the values of fields of `config` that a row lacks."""
    from tilewright.declarations import catalog  # noqa: PLC0415 (families know tables)

    own = catalog.row_of(family)
    if own is None:
        return Object(ROW, OPTIONAL), {}
    return Object({**ROW, "config": own.config, "facts": own.facts}, OPTIONAL), own.defaults


class Rows(Sequence[KernelRecord]):
    """Kernels of tables, in order. Each is parsed when it is asked for."""

    def __init__(self, listed: Sequence[tuple[Table, Sequence[str]]]) -> None:
        self.listed = listed

    @functools.cached_property
    def _home(self) -> dict[str, Table]:
        return {name: table for table, names in self.listed for name in names}

    def stating(self, values: Mapping[str, str | bool]) -> list[KernelRecord]:
        """The kernels, without those whose row's text shows that a field has another value.

        Parsing 2,000 rows takes 25 ms, and a problem needs a few dozen.
        """
        kernels: list[KernelRecord] = []
        for table, names in self.listed:
            left = names
            for field, value in values.items():
                left = table.containing(left, f'"{field}": {json.dumps(value)}')
            kernels += map(table.__getitem__, left)
        return kernels

    def __len__(self) -> int:
        return sum(len(names) for _, names in self.listed)

    def __iter__(self) -> Iterator[KernelRecord]:
        return (table[name] for name, table in self._home.items())

    @overload
    def __getitem__(self, index: int) -> KernelRecord: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[KernelRecord]: ...
    def __getitem__(self, index: int | slice) -> KernelRecord | Sequence[KernelRecord]:
        if isinstance(index, slice):
            return [self._home[name][name] for name in [*self._home][index]]
        name = [*self._home][index]
        return self._home[name][name]

    def __contains__(self, record: object) -> bool:
        if not isinstance(record, KernelRecord) or record.name not in self._home:
            return False
        return self._home[record.name][record.name] == record


@functools.cache
def _is_target(text: str) -> bool:
    """Whether a text matches `_TARGET`. Compiling that pattern takes longer than checking a few targets
    so."""
    number = text[3:-1] if text.endswith(("a", "f")) else text[3:]
    return text.startswith("sm_") and number.isascii() and number.isdecimal() and len(number) in (2, 3)


def _leading_name(line: str) -> str:
    """The X of `{"name": "X", ...`; empty if the line is not a row."""
    if line.startswith(_START) and line.endswith(("},", "}")):  # the generator's layout
        return line[len(_START) : line.find('"', len(_START))]
    opening, key, colon, name, _ = (line.split('"', 4) + [""] * 4)[:5]
    is_row = (
        opening.strip() == "{" and key == "name" and colon.strip() == ":" and line.rstrip(", \r")[-1] == "}"
    )
    return name if is_row else ""


def find_tables(generated: Path | None = None) -> list[Path]:
    """The table.json of every module below `generated` (default: `sets.first_folder()`), sorted."""
    root = sets.first_folder() if generated is None else generated
    return paths.in_each(root, "table.json")


def read_tables(generated: Path | None = None) -> list[Table]:
    """The tables of `find_tables`. Raises TableError if a file is not a table."""
    return [Table.read(path) for path in find_tables(generated)]


def modules_without_table(generated: Path) -> list[Path]:
    """The folders that hold a manifest, so the generator has written them, but no table."""
    folders = (path.parent for path in paths.in_each(generated, "manifest.txt"))
    return [folder for folder in folders if not (folder / "table.json").exists()]
