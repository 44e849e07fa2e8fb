"""Source keys: what the source of a kernel tells its compiler, equal on every machine. Records hold them."""

from __future__ import annotations

from pathlib import Path

from tilewright.base import reading
from tilewright.compile import compilers
from tilewright.compile.keys import HeaderSet, digest
from tilewright.declarations.table import KernelRecord, Table


class SourceKeys:
    """Computes source keys against one set of headers and one CUTLASS release ("4.2.0")."""

    def __init__(self, include: Path, cutlass_version: str) -> None:
        self.headers = HeaderSet(include)
        self._cutlass = cutlass_version

    def of(self, table: Table, record: KernelRecord) -> str:
        """The key, 32 hexadecimal digits. Raises FileNotFoundError if the source does not exist,
        UnreadableFileError if it is not a file."""
        data, compiler = reading.contents(table.source(record)), compilers.of(record)
        return digest(
            "source",
            self.headers.including(compiler.meaning(data)),
            compiler.headers_release(record, self._cutlass),
            *compiler.flags(record),
        )
