"""The versions of system libraries that a shared library needs, and the platform tag that they allow."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path

from tilewright.errors import BuildError

_VERSIONS_NEEDED = 0x6FFFFFFE  # SHT_GNU_verneed
# A platform's tag names its glibc. Beside it: the newest GLIBCXX of libstdc++ that comes with such a system
# (the policies of PEP 600, as auditwheel lists them).
_POLICIES = (
    ((2, 17), (3, 4, 19)),
    ((2, 28), (3, 4, 24)),
    ((2, 31), (3, 4, 28)),
    ((2, 34), (3, 4, 29)),
    ((2, 35), (3, 4, 30)),
    ((2, 39), (3, 4, 33)),
)


def platform_tag(libraries: Iterable[Path], machine: str) -> str:
    """The tag of the oldest systems that load the libraries: manylinux_2_X, or linux if no policy fits."""
    versions = {version for library in libraries for version in needed_versions(library)}
    glibc, cxx = _newest(versions, "GLIBC"), _newest(versions, "GLIBCXX")
    for system_glibc, system_cxx in _POLICIES:
        if glibc <= system_glibc and cxx <= system_cxx:
            return f"manylinux_{system_glibc[0]}_{system_glibc[1]}_{machine}"
    return f"linux_{machine}"


def needed_versions(library: Path) -> Iterator[str]:
    """The symbol versions that a 64-bit little-endian ELF library needs, such as GLIBC_2.34."""
    data = library.read_bytes()
    if data[:6] != b"\x7fELF\x02\x01":
        raise BuildError(f"{library}: not a 64-bit little-endian ELF library")
    (offset,) = struct.unpack_from("<Q", data, 0x28)
    size, count = struct.unpack_from("<HH", data, 0x3A)
    sections = [struct.unpack_from("<IIQQQQIIQQ", data, offset + size * index) for index in range(count)]
    for section in sections:
        if section[1] != _VERSIONS_NEEDED:
            continue
        names, entry = sections[section[6]][4], section[4]
        while True:
            _, versions, _, first, following = struct.unpack_from("<HHIII", data, entry)
            version = entry + first
            for _ in range(versions):
                *_, name, further = struct.unpack_from("<IHHII", data, version)
                yield data[names + name : data.index(b"\0", names + name)].decode()
                version += further
            if not following:
                break
            entry += following


def _newest(versions: Iterable[str], library: str) -> tuple[int, ...]:
    pattern = re.compile(rf"{library}_(\d+(?:\.\d+)*)")
    matches = filter(None, map(pattern.fullmatch, versions))
    return max((tuple(map(int, match[1].split("."))) for match in matches), default=(0,))
