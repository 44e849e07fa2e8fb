"""What is done on a small disk, in a process of its own: `small_disk.py SCENARIO FOLDER TABLE`.

It runs as root of a mount namespace of its own, so that its disks are gone with it. It prints JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tilewright.compile.building import build
from tilewright.compile.library import libraries
from tilewright.compile.store import Store
from tilewright.declarations.table import Table
from tilewright.errors import TilewrightError
from tilewright.libraries.registry import Registry

SIZES = ("32k", "64k", "128k", "256k", "512k", "1m", "2m", "4m", "8m", "12m")


def mount(folder: Path, options: str) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], check=True)


def remount(folder: Path, options: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{options}", str(folder)], check=True)


def attempt(table: Table, store: Store, **options: Any) -> dict[str, Any]:
    """What a build says, and whether anything that it left is not whole."""
    try:
        report = build([table], store=store, jobs=1, **options)
        ok, said = report.ok, report.explain_failures()
    except TilewrightError as error:
        ok, said = False, str(error)
    entries = (store.root / "objects").glob("*")
    broken = [path.name for path in entries if store.entry(path.name) is None]
    return {"ok": ok, "said": said, "broken": broken, "libraries": len(libraries(table.module, store=store))}


def answers(table: Table) -> list[int]:
    registry = Registry(table.folder.parent)
    return [registry.library(record)._module.number(name) for name, record in table.items()]


def growing(folder: Path, table: Table) -> Any:
    """A build on ever larger disks, until there is room for it."""
    mount(folder, f"size={SIZES[0]}")
    store, said = Store(), {}
    for size in SIZES:
        remount(folder, f"size={size}")
        said[size] = attempt(table, store)
    remount(folder, "size=200m")
    said["200m"] = attempt(table, store)
    return {
        "attempts": said,
        "numbers": answers(table),
        "left": [path.name for path in (store.root / "tmp").iterdir()],
    }


def linking(folder: Path, table: Table) -> Any:
    """The disk is full when only linking is left to do."""
    mount(folder, "size=200m")
    store = Store()
    said = {"compiled": attempt(table, store), "full": {}, "freed": {}}
    for library in libraries(table.module, store=store):
        store.remove(library.path.parent)
    used = 200 * (1 << 20) - os.statvfs(folder).f_bavail * 4096
    remount(folder, f"size={(used >> 10) + 100}k")
    said["full"] = attempt(table, store)
    remount(folder, "size=200m")
    said["freed"] = attempt(table, store)
    return {
        "attempts": said,
        "numbers": answers(table),
        "left": [path.name for path in (store.root / "tmp").iterdir()],
    }


def read_only(folder: Path, table: Table) -> Any:
    """What is built is used from a disk that cannot be written; what is not says why it cannot be."""
    mount(folder, "size=200m")
    store = Store()
    one, two = table
    said: dict[str, Any] = {"built": build([table], [one], store=store, jobs=1).ok}
    remount(folder, "ro")
    registry = Registry(table.folder.parent)
    said["number"] = registry.library(table[one])._module.number(one)
    try:
        registry.library(table[two])
    except TilewrightError as error:
        said["refused"] = f"{type(error).__name__}: {error}"
    said["again"] = attempt(table, store, select=[one])
    return said


if __name__ == "__main__":
    scenario, folder, table = sys.argv[1:]
    os.environ["TILEWRIGHT_CACHE"] = str(Path(folder) / "cache")
    done = {"growing": growing, "linking": linking, "read_only": read_only}[scenario]
    print(json.dumps(done(Path(folder), Table.read(Path(table)))))
