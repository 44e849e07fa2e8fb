"""Links a module's objects and its table into the library that the runtime loads."""

from __future__ import annotations

import errno
import json
import logging
import os
import shutil
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright.compile.disk import says_full
from tilewright.compile.keys import HeaderSet, digest, file_sha256
from tilewright.compile.library import FORMAT, LibraryRecord, libraries, read
from tilewright.compile.store import Entry, Store
from tilewright.compile.system import run_bounded, shell, shortened, tvm_ffi_folder
from tilewright.compile.toolchain import HostToolchain
from tilewright.errors import BuildError

log = logging.getLogger("tilewright")

_SUPERSEDED_SECONDS = 600  # a process that has listed libraries has loaded one by then


@dataclass(frozen=True)
class Part:
    """A kernel to link, and what its object was compiled from."""

    entry: Entry
    made_of: str
    source_key: str
    headers: Mapping[str, str]  # that its source reaches: sha256 by name


def link(
    module: str,
    table: Entry,
    table_headers: Mapping[str, str],
    kernels: Mapping[str, Part],
    *,
    store: Store,
    include: Path,
    toolchain: HostToolchain,
) -> LibraryRecord:
    """Links `kernels` (by name) with the module's table object. If that library exists already, it is only
    marked as the module's newest.

    Raises BuildError with the linker's output.
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
            name: {
                "made_of": part.made_of,
                "source_key": part.source_key,
                "machine_code": part.entry.report.get("machine_code", ""),
                "object": part.entry.key,
            }
            for name, part in sorted(kernels.items())
        },
        "table": table.key,
    }
    key = digest(json.dumps(description, sort_keys=True), toolchain.identity)
    target = store.root / "libraries" / module / key
    with store.lock(f"library-{module}-{key}"):
        present = _present(target, module, include, thorough=True)
        if present is not None:
            try:
                os.utime(target / "library.json")
            except OSError as error:
                raise store.failure(error) from None
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
    record = _present(target, module, include)
    if record is None:
        raise BuildError(
            f"{target}: the library just linked is damaged, or a header changed meanwhile; build again"
        )
    log.info("linked %d kernels of %s into %s", len(record.kernels), module, record.path)
    _remove_superseded(record, store, include)
    return record


def _present(target: Path, module: str, include: Path, *, thorough: bool = False) -> LibraryRecord | None:
    try:
        return read(target / "library.json", module, HeaderSet(include), thorough=thorough)
    except (BuildError, FileNotFoundError):
        return None


def _link(draft: Path, module: str, objects: Sequence[Path], toolchain: HostToolchain) -> None:
    listing = draft / "objects.rsp"  # 20,000 paths do not fit a command line
    listing.write_text("".join(f'"{path}"\n' for path in objects), encoding="utf-8")
    output = draft / f"{module}.so"
    command = link_command(toolchain, output, listing)
    try:
        status, printed = run_bounded(command)
    finally:
        listing.unlink()
    if status == 0 and output.is_file():
        return
    if says_full(printed) or status == -signal.SIGBUS:  # ld maps its output into memory
        raise OSError(errno.ENOSPC, "No space left on device")
    what = f"exits {status}{'' if status else f' and wrote no {output.name}'}"
    errors = "".join(f"{shortened(line)}\n" for line in printed.strip().splitlines()[:12])
    raise BuildError(f"{module}: the linker {what}\n{errors}  command: {shell(command)}")


def link_command(toolchain: HostToolchain, output: Path, listing: Path) -> list[str]:
    """Needs no path to libtvm_ffi, because the Python package that loads the library has loaded it before."""
    return [
        *toolchain.host,
        "-shared",
        "-o",
        str(output),
        f"@{listing}",
        "-Wl,--no-undefined",  # weak names may stay undefined: the table's kernels that are not built
        "-Wl,-Bsymbolic",  # two libraries of a module in one process: each uses its own kernels
        *toolchain.link_options,
        f"-L{tvm_ffi_folder() / 'lib'}",
        "-ltvm_ffi",
        "-ldl",
        "-lrt",
        "-lpthread",
    ]


def _remove_superseded(new: LibraryRecord, store: Store, include: Path) -> None:
    """Removes older libraries whose kernels are all in `new`, so that no call uses them. Processes that have
    loaded them keep their mapping."""
    inside = {(name, kernel["made_of"]) for name, kernel in new.kernels.items()}
    for old in libraries(new.module, store=store, include=include):
        kernels = {(name, kernel["made_of"]) for name, kernel in old.kernels.items()}
        if old.key != new.key and kernels <= inside and _age(old.path) > _SUPERSEDED_SECONDS:
            log.info("removing %s, which has no kernel that %s lacks", old.path.parent, new.path.parent)
            store.remove(old.path.parent)


def _age(path: Path) -> float:
    try:
        return time.time() - path.stat().st_mtime
    except OSError:
        return 0.0
