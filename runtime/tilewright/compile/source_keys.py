"""What records say a kernel was made of, equal on every machine: source keys and host keys.

A *source key* covers what the source of a kernel tells its compiler. A *host key* covers the code that runs
on the host when the kernel is called: the check of a problem, tensor maps, arguments, the launch. It is in
the module's table.cc, in the kernel's own unit, and in the headers that these two reach.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from tilewright.base import reading
from tilewright.compile import compilers
from tilewright.compile.keys import INCLUDE, HeaderSet, digest, header_name
from tilewright.compile.meaning import host_meaning, meaning
from tilewright.declarations.table import KernelRecord, Table

_TABLE = "table.cc"
_KERNELS = re.compile(rb"(?m)^#define TILEWRIGHT_KERNELS\(.*\n")  # one line, without layout


class SourceHeaders(HeaderSet):
    """Headers by what they tell a compiler: without comments, layout, and names of headers."""

    def __init__(self, include: Path) -> None:
        super().__init__(include)
        self._meanings: dict[str, str] = {}  # digests by the header's name

    def meaning(self, source: bytes) -> str:
        """A digest of what a text in C++ tells the compiler."""
        return self.including(meaning(source))

    def including(self, text: bytes) -> str:
        """A digest of a text, in which each `#include "tilewright/..."` counts as the meaning of that header,
        wherever the header lies."""

        def of(match: re.Match[bytes]) -> bytes:
            return b"#include %s" % self._meaning_of(header_name(match)).encode()

        return hashlib.sha256(re.sub(INCLUDE, of, text)).hexdigest()

    def _meaning_of(self, name: str) -> str:
        if name not in self._meanings:
            self._meanings[name] = name  # headers that include each other
            self._file(name)
            data = reading.contents(self.path(name))
            # Layout means something in Python.
            self._meanings[name] = self.including(data) if name.endswith(".py") else self.meaning(data)
        return self._meanings[name]


class _HostHeaders(SourceHeaders):
    """Headers by what they tell the host's compiler."""

    def meaning(self, source: bytes) -> str:
        return self.including(host_meaning(source))


class SourceKeys:
    """Computes source keys against one set of headers and one CUTLASS release ("4.2.0")."""

    def __init__(self, include: Path, cutlass_version: str) -> None:
        self.headers = SourceHeaders(include)
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


class HostKeys:
    """Computes host keys against one set of headers."""

    def __init__(self, include: Path) -> None:
        self._headers = _HostHeaders(include)
        self._tables: dict[Path, str] = {}  # digests by the module's folder

    def of(self, table: Table, record: KernelRecord) -> str:
        """The key, 32 hexadecimal digits. It does not change with other kernels in the module, or with code
        that runs on the GPU alone. Raises FileNotFoundError or UnreadableFileError, as `SourceKeys.of` does.
        """
        compiler = compilers.of(record)
        if table.folder not in self._tables:
            text = host_meaning(reading.contents(table.folder / _TABLE))
            self._tables[table.folder] = self._headers.including(_KERNELS.sub(b"", text))
        unit = compiler.host_meaning(reading.contents(table.source(record)))
        return digest(
            "host", self._tables[table.folder], self._headers.including(unit), *compiler.table_flags()
        )
