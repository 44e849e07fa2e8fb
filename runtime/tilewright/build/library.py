"""Links a module's objects and its table into the library that the runtime loads.

    libraries/<module>/<key>/{<module>.so, library.json}

A library holds every kernel of the module's table that is built, so a later one replaces an earlier one.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright import paths
from tilewright.build.commands import shell
from tilewright.build.keys import abi_version, digest, file_sha256, headers_digest
from tilewright.build.store import Entry, Store
from tilewright.build.system import tvm_ffi_folder
from tilewright.build.toolchain import Toolchain
from tilewright.errors import BuildError
from tilewright.table import KernelRecord

FORMAT = 1
_SUPERSEDED_SECONDS = 600  # a process that has listed libraries has loaded one by then


@dataclass(frozen=True)
class LibraryRecord:
    """A library that fits this tilewright's headers."""

    module: str
    key: str
    path: Path  # of the .so
    kernels: Mapping[str, Mapping[str, str]]  # name -> {"sha256": of the source, "object": key}
    toolchain: Mapping[str, str]

    def holds(self, record: KernelRecord) -> bool:
        """True where the library has this kernel, made of the source the table knows."""
        kernel = self.kernels.get(record.name)
        return kernel is not None and kernel["sha256"] == record.sha256


@dataclass(frozen=True)
class _Fit:
    """What a library must agree with."""

    abi: int
    headers: str

    @classmethod
    def of(cls, include: Path) -> _Fit:
        return cls(abi_version(include), headers_digest(include))


def libraries(module: str, *, store: Store | None = None, include: Path | None = None) -> list[LibraryRecord]:
    """The module's libraries that can be loaded, the newest first: what was built last is what is used.

    Compiles nothing and starts no process. A library of other headers or another ABI is passed over. A newer
    build may remove one from disk long after it was superseded: on a failure to load, list again.
    """
    store = Store() if store is None else store
    include = paths.include_dir() if include is None else include
    fit = _Fit.of(include)
    found = []
    for path in (store.root / "libraries" / module).glob("*/library.json"):
        record = _read(path, module, fit)
        if record is not None:
            found.append((-path.stat().st_mtime_ns, record.key, record))
    return [record for *_, record in sorted(found, key=lambda item: item[:2])]


def link(
    module: str,
    table: Entry,
    kernels: Mapping[str, Entry],
    *,
    store: Store,
    include: Path,
    toolchain: Toolchain,
) -> LibraryRecord:
    """Links `kernels` (by name) with the module's table object, unless that library is there already.

    Either way it is then the module's newest. Raises BuildError with the linker's words.
    """
    fit = _Fit.of(include)
    described: dict[str, Any] = {
        "headers": fit.headers,
        "abi": fit.abi,
        "format": FORMAT,
        "module": module,
        "toolchain": dict(toolchain.describe()),
        "kernels": {
            name: {"sha256": entry.report["source_sha256"], "object": entry.key}
            for name, entry in sorted(kernels.items())
        },
        "table": table.key,
    }
    key = digest(json.dumps(described, sort_keys=True), toolchain.host_version, toolchain.release)
    target = store.root / "libraries" / module / key
    with store.lock(f"library-{module}-{key}"):
        present = _read(target / "library.json", module, fit, thorough=True)
        if present is not None:
            os.utime(target / "library.json")
            return present
        draft = store.draft(f"library-{key}")
        try:
            _link(draft, module, table, kernels, toolchain)
            library = draft / f"{module}.so"
            described["library"] = {"sha256": file_sha256(library), "bytes": library.stat().st_size}
            described["key"] = key
            (draft / "library.json").write_text(json.dumps(described, indent=1) + "\n", encoding="utf-8")
            store.commit(draft, target)
        except OSError as error:
            raise store.failure(error) from None
        finally:
            shutil.rmtree(draft, ignore_errors=True)
    record = _read(target / "library.json", module, fit)
    if record is None:
        raise BuildError(f"{target}: the library just linked cannot be read back")
    _remove_superseded(record, store, include)
    return record


def _link(draft: Path, module: str, table: Entry, kernels: Mapping[str, Entry], toolchain: Toolchain) -> None:
    objects = [table.object, *(entry.object for _, entry in sorted(kernels.items()))]
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


def _read(path: Path, module: str, fit: _Fit, *, thorough: bool = False) -> LibraryRecord | None:
    """The library described by `path`, if it is whole and fits; `thorough` reads all of it."""
    try:
        data: dict[str, Any] = json.loads(path.read_bytes())
        library = path.parent / f"{module}.so"
        fits = (
            data["format"] == FORMAT
            and data["abi"] == fit.abi
            and data["headers"] == fit.headers
            and library.stat().st_size == data["library"]["bytes"]
            and (not thorough or file_sha256(library) == data["library"]["sha256"])
        )
        return (
            LibraryRecord(module, data["key"], library, data["kernels"], data["toolchain"]) if fits else None
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _remove_superseded(new: LibraryRecord, store: Store, include: Path) -> None:
    """Removes older libraries all of whose kernels are in `new`; those in use stay mapped."""
    kernels: Sequence[tuple[str, str]] = [(name, kernel["object"]) for name, kernel in new.kernels.items()]
    for old in libraries(new.module, store=store, include=include):
        inside = {(name, kernel["object"]) for name, kernel in old.kernels.items()} <= set(kernels)
        if old.key != new.key and inside and _age(old.path) > _SUPERSEDED_SECONDS:
            shutil.rmtree(old.path.parent, ignore_errors=True)


def _age(path: Path) -> float:
    try:
        return time.time() - path.stat().st_mtime
    except OSError:
        return 0.0
