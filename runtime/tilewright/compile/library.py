"""Built libraries: which exist, which kernels they hold, and whether they are undamaged.

libraries/<module>/<key>/{<module>.so, library.json}

A library holds every built kernel of the module's table, so a newer library replaces an older one.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tilewright.base import paths, reading
from tilewright.base.schema import Anything, Integer, Map, Object, String, fields
from tilewright.compile import names
from tilewright.compile.compilers import made_of
from tilewright.compile.keys import HeaderSet, digest, files_digest
from tilewright.declarations.table import KernelRecord
from tilewright.errors import BuildError, UnreadableFileError

if TYPE_CHECKING:
    from tilewright.compile.store import Store

log = logging.getLogger("tilewright")

FORMAT = 2
SCHEMA = Object(  # of a library.json
    {
        **fields(("module", "key", "machine", "table"), String()),
        "format": Integer(),
        "library": Object({"sha256": String(), "bytes": Integer()}),
        "headers": Map(String()),  # sha256 by name
        "toolchain": Map(String()),
        "kernels": Map(Object({"made_of": String()}, others=String())),
    },
    others=Anything(),
)
_ANY_FORMAT = Object({"format": Integer()}, others=Anything())
_said: set[str] = set()  # warnings of damage: each is logged once


class LibraryRecord(NamedTuple):
    """A library that was built with this tilewright's headers, so it has the same ABI."""

    module: str
    key: str
    path: Path  # of the .so
    # By name: {"made_of", "source_key", "machine_code": its digest, "object": its key}
    kernels: Mapping[str, Mapping[str, str]]
    toolchain: Mapping[str, str]
    table: str  # the key of the table's object that it was linked of

    def holds(self, record: KernelRecord) -> bool:
        """Whether the library has this kernel, compiled from the source and with the flags of its row."""
        kernel = self.kernels.get(record.name)
        return kernel is not None and kernel["made_of"] == made_of(record)


Finder = Callable[[str], list[LibraryRecord]]
"""Lists the libraries of a module; the first counts most."""


def libraries(
    module: str,
    *,
    store: Store | None = None,
    include: Path | None = None,
    headers: HeaderSet | None = None,
) -> list[LibraryRecord]:
    """The module's libraries that can be loaded, the newest first: what was built last is what is used.

    Compiles nothing and starts no process. A library is passed over if it is for another machine, or if a
    header that one of its kernels or its table reaches has changed; other headers are nothing to it. A
    damaged one is passed over with a warning; `damage` finds what can be seen only by reading all of it. A
    newer build may remove one from disk long after it was superseded: on a failure to load, list again.
    """
    root = paths.cache_dir().absolute() if store is None else store.root
    if headers is None:
        headers = HeaderSet(paths.include_dir() if include is None else include)
    dated = []
    for path in described_in(root, module):
        try:
            record = read(path, module, headers)
            written = path.stat().st_mtime_ns
        except FileNotFoundError:  # another process has removed it
            continue
        except BuildError as error:
            if error.message not in _said:
                _said.add(error.message)
                log.warning("passing over a library: %s; the next build sets it aside", error.message)
            continue
        if record is not None:
            dated.append((-written, record.key, record))
    return [record for *_, record in sorted(dated, key=lambda item: item[:2])]


def described_in(root: Path, module: str) -> list[Path]:
    """The library.json files of a module in a cache, in folders whose names have our form."""
    descriptions = paths.in_each(root / "libraries" / module, "library.json")
    return [path for path in descriptions if names.has_our_name(path.parent, "libraries")]


def described(library: Path) -> LibraryRecord:
    """The record that was written when a .so was linked, whatever has changed since. Raises BuildError if it
    cannot be read."""
    path = library.with_name("library.json")
    try:
        return _record(_parse(path), library)
    except (OSError, KeyError) as error:
        raise BuildError(f"{path} is not readable: {error!r}") from None


def cache_of(library: Path) -> Path | None:
    """The cache, or the folder of built libraries, that holds a .so; None if the .so lies elsewhere."""
    in_cache = len(library.parents) > 3 and library.parents[2].name == "libraries"
    return library.parents[3] if in_cache else None


def damage(library: Path, stated: str | None = None) -> str:
    """Why the content of a .so differs from what was linked; "" if it does not, or if no record says what was
    linked.

    The whole file is read. In a cache the answer is remembered until the file's size, times or inode change.
    `stated` is the sha256 of the linked file; by default library.json states it.
    """
    if stated is None:
        path = library.with_name("library.json")
        if not path.is_file():
            return ""
        try:
            stated = str(_parse(path)["library"]["sha256"])
        except BuildError as error:
            return error.message
        except KeyError:
            return f"{path} is of another format"
    root = cache_of(library)
    # An installed package has no folder of digests.
    memory = root / "digests" if root and (root / "digests").is_dir() else None
    try:
        actual = files_digest({"library": library}, memory, f"library {library}")
    except OSError as error:
        return f"{library}: {error.strerror or error}"
    if actual == digest(f"library {stated}"):
        return ""
    return f"{library} is damaged: its content is not what was linked"


def read(path: Path, module: str, headers: HeaderSet, *, thorough: bool = False) -> LibraryRecord | None:
    """The library that a library.json describes; None if it is for another machine, format or headers.

    `thorough` reads the whole library. Raises BuildError if the library is damaged or belongs to another
    folder, FileNotFoundError if `path` no longer exists.
    """
    record, foreign = judged(path, module, headers, thorough=thorough)
    if record is None:
        log.debug("passing over %s: %s", path.parent, foreign)
    return record


def judged(
    path: Path, module: str, headers: HeaderSet, *, thorough: bool = False
) -> tuple[LibraryRecord | None, str]:
    """The library that a library.json describes, or None and why it cannot be used here. Raises as `read`."""
    data = _parse(path)
    if foreign := _foreign(data, headers):
        return None, foreign
    if data["module"] != module:
        raise BuildError(f"{path.parent} is a library of module {data['module']}, not of {module}")
    if data["key"] != path.parent.name:
        raise BuildError(f"{path.parent} holds the library {data['key']}, which does not belong there")
    library = path.with_name(f"{module}.so")
    try:
        size = library.stat().st_size
    except OSError as error:
        if not path.exists():
            raise FileNotFoundError(path) from None  # removed by another process
        raise BuildError(f"{library}: {error.strerror or error}") from None
    if size != data["library"]["bytes"]:
        raise BuildError(f"{library} is damaged: {size} bytes, {data['library']['bytes']} were linked")
    if thorough and (reason := damage(library, data["library"]["sha256"])):
        raise BuildError(reason)
    return _record(data, library), ""


def _foreign(data: Mapping[str, Any], headers: HeaderSet) -> str:
    """Why an undamaged library cannot be used here; "" if it can."""
    if data["format"] != FORMAT:
        return f"format {data['format']}, this tilewright reads {FORMAT}"
    machine = os.uname().machine  # importing `platform` costs the first lookup a millisecond
    if data["machine"] != machine:
        return f"it is for {data['machine']}, this is {machine}"
    if changed := headers.changed(data["headers"]):
        more = f" and {len(changed) - 1} more" if len(changed) > 1 else ""
        return f"it was built with another version of the header {changed[0]}{more}"
    return ""


def _parse(path: Path) -> dict[str, Any]:
    """The content of a library.json, with parts of the right types. For another format, only the format.

    Raises BuildError if the file is damaged, FileNotFoundError if it does not exist.
    """
    try:
        data: dict[str, Any] = reading.loads(path, reading.text(path))
        if isinstance(data, dict) and data.get("format") == FORMAT:
            reading.check(path, data, SCHEMA)
            return data
        reading.check(path, data, _ANY_FORMAT)
    except UnreadableFileError as error:
        raise BuildError(f"{path} is damaged: {error.reason}") from None
    return {"format": data["format"]}


def _record(data: Mapping[str, Any], library: Path) -> LibraryRecord:
    return LibraryRecord(
        data["module"], data["key"], library, data["kernels"], data["toolchain"], data["table"]
    )
