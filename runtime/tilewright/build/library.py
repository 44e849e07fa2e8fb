"""Links a module's objects and its table into the library that the runtime loads.

    libraries/<module>/<key>/{<module>.so, library.json}

A library holds every kernel of the module's table that is built, so a later one replaces an earlier one.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright import paths
from tilewright.build.commands import made_of, shell
from tilewright.build.keys import HeaderSet, digest, file_sha256
from tilewright.build.store import Entry, Store
from tilewright.build.system import tvm_ffi_folder
from tilewright.build.toolchain import Toolchain
from tilewright.errors import BuildError
from tilewright.table import KernelRecord

FORMAT = 2
_SUPERSEDED_SECONDS = 600  # a process that has listed libraries has loaded one by then


@dataclass(frozen=True)
class LibraryRecord:
    """A library that fits this tilewright's headers, so its ABI too."""

    module: str
    key: str
    path: Path  # of the .so
    kernels: Mapping[str, Mapping[str, str]]  # by name: {"made_of", "source_key", "object": its key}
    toolchain: Mapping[str, str]

    def holds(self, record: KernelRecord) -> bool:
        """True where the library has this kernel, compiled from the source and with the flags of its row."""
        kernel = self.kernels.get(record.name)
        return kernel is not None and kernel["made_of"] == made_of(record)


@dataclass(frozen=True)
class Part:
    """A kernel to link, and what its object was compiled from."""

    entry: Entry
    made_of: str
    source_key: str
    headers: Mapping[str, str]  # that its source reaches: sha256 by name


def libraries(module: str, *, store: Store | None = None, include: Path | None = None) -> list[LibraryRecord]:
    """The module's libraries that can be loaded, the newest first: what was built last is what is used.

    Compiles nothing and starts no process. A library is passed over if it is for another machine, or if a
    header that one of its kernels or its table reaches has changed; other headers are nothing to it. A newer
    build may remove one from disk long after it was superseded: on a failure to load, list again.
    """
    store = Store() if store is None else store
    include = paths.include_dir() if include is None else include
    headers = HeaderSet(include)
    found = []
    for path in (store.root / "libraries" / module).glob("*/library.json"):
        record = _read(path, module, headers)
        if record is not None:
            found.append((-path.stat().st_mtime_ns, record.key, record))
    return [record for *_, record in sorted(found, key=lambda item: item[:2])]


def described(library: Path) -> LibraryRecord:
    """What was written of a .so when it was linked, whatever has changed since.

    Raises BuildError where that cannot be read.
    """
    path = library.with_name("library.json")
    try:
        return _record(json.loads(path.read_bytes()), library)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BuildError(f"{path} is not readable: {error!r}") from None


def link(
    module: str,
    table: Entry,
    table_headers: Mapping[str, str],
    kernels: Mapping[str, Part],
    *,
    store: Store,
    include: Path,
    toolchain: Toolchain,
) -> LibraryRecord:
    """Links `kernels` (by name) with the module's table object, unless that library is there already.

    Either way it is then the module's newest. Raises BuildError with the linker's words.
    """
    reached = dict(table_headers)
    for part in kernels.values():
        reached.update(part.headers)
    description: dict[str, Any] = {
        "format": FORMAT,
        "module": module,
        "machine": toolchain.machine,
        "toolchain": dict(toolchain.describe()),
        "headers": dict(sorted(reached.items())),
        "kernels": {
            name: {"made_of": part.made_of, "source_key": part.source_key, "object": part.entry.key}
            for name, part in sorted(kernels.items())
        },
        "table": table.key,
    }
    key = digest(json.dumps(description, sort_keys=True), toolchain.host_version, toolchain.release)
    target = store.root / "libraries" / module / key
    with store.lock(f"library-{module}-{key}"):
        present = _read(target / "library.json", module, HeaderSet(include), thorough=True)
        if present is not None:
            os.utime(target / "library.json")
            return present
        draft = store.draft(f"library-{key}")
        try:
            objects = [table.object, *(part.entry.object for _, part in sorted(kernels.items()))]
            _link(draft, module, objects, toolchain)
            library = draft / f"{module}.so"
            description["library"] = {"sha256": file_sha256(library), "bytes": library.stat().st_size}
            description["key"] = key
            (draft / "library.json").write_text(json.dumps(description, indent=1) + "\n", encoding="utf-8")
            store.commit(draft, target)
        except OSError as error:
            raise store.failure(error) from None
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    record = _read(target / "library.json", module, HeaderSet(include))
    if record is None:
        raise BuildError(
            f"{target}: the library just linked is damaged, or a header changed meanwhile; build again"
        )
    _remove_superseded(record, store, include)
    return record


def _link(draft: Path, module: str, objects: Sequence[Path], toolchain: Toolchain) -> None:
    listing = draft / "objects.rsp"  # 20,000 paths do not fit a command line
    listing.write_text("".join(f'"{path}"\n' for path in objects), encoding="utf-8")
    command = link_command(toolchain, draft / f"{module}.so", listing)
    result = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False
    )
    listing.unlink()
    if result.returncode != 0:
        errors = "\n".join((result.stderr or result.stdout).strip().splitlines()[:12])
        raise BuildError(f"{module}: linking failed\n{errors}\n  command: {shell(command)}")


def link_command(toolchain: Toolchain, output: Path, listing: Path) -> list[str]:
    """libtvm_ffi is found by nobody's path: the Python package that loads the library has loaded it."""
    return [
        *toolchain.host,
        "-shared",
        "-o",
        str(output),
        f"@{listing}",
        "-Wl,--no-undefined",  # but for the table's weak names of kernels that are not built
        "-Wl,-Bsymbolic",  # two libraries of a module in one process: each uses its own kernels
        f"-L{toolchain.lib}",
        "-lcudart_static",
        f"-L{tvm_ffi_folder() / 'lib'}",
        "-ltvm_ffi",
        "-ldl",
        "-lrt",
        "-lpthread",
    ]


def _read(path: Path, module: str, headers: HeaderSet, *, thorough: bool = False) -> LibraryRecord | None:
    """The library described by `path`, if it is whole and fits; `thorough` reads all of it."""
    try:
        data: dict[str, Any] = json.loads(path.read_bytes())
        library = path.parent / f"{module}.so"
        fits = (
            data["format"] == FORMAT
            and data["machine"] == platform.machine()
            and headers.stand(data["headers"])
            and library.stat().st_size == data["library"]["bytes"]
            and (not thorough or file_sha256(library) == data["library"]["sha256"])
        )
        return _record(data, library) if fits else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _record(data: Mapping[str, Any], library: Path) -> LibraryRecord:
    return LibraryRecord(data["module"], data["key"], library, data["kernels"], data["toolchain"])


def _remove_superseded(new: LibraryRecord, store: Store, include: Path) -> None:
    """Removes older libraries of which `new` has every kernel, so none is used; those in use stay mapped."""
    inside = {(name, kernel["made_of"]) for name, kernel in new.kernels.items()}
    for old in libraries(new.module, store=store, include=include):
        kernels = {(name, kernel["made_of"]) for name, kernel in old.kernels.items()}
        if old.key != new.key and kernels <= inside and _age(old.path) > _SUPERSEDED_SECONDS:
            shutil.rmtree(old.path.parent, ignore_errors=True)


def _age(path: Path) -> float:
    try:
        return time.time() - path.stat().st_mtime
    except OSError:
        return 0.0
