"""Builds a bundle's kernels, and writes its folder.

bundle.json                     the problems and their tactics (`bundle/manifest.py`)
libraries/<module>/<key>/       the kernels of a module that are in the bundle, and no others
report.md, report.json          the bundle's contents, for people and for programs
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tilewright.base import writing
from tilewright.bundle import manifest
from tilewright.compile.building import build
from tilewright.compile.progress import Progress
from tilewright.compile.report import BuildReport
from tilewright.compile.store import Store
from tilewright.compile.toolchain import HostToolchain
from tilewright.declarations.table import Table
from tilewright.errors import BundleError
from tilewright.libraries.registry import Registry
from tilewright.tools.bundling.planning import Plan

LIBRARIES = "libraries"
REPORTS = ("report.md", "report.json")
_DRAFT = ".linking-"
# The manifest until the bundle is whole: of no format that is read, so that the next run makes it anew.
_UNFINISHED = '{"format": 0}\n'


def check_folder(folder: Path) -> None:
    """Raises BundleError unless the folder is absent, empty or a bundle, which is then made anew."""
    if folder.exists() and not folder.is_dir():
        raise BundleError(f"{folder} is no folder", hint="Name a folder that does not exist yet.")
    if folder.is_dir() and any(folder.iterdir()) and not (folder / manifest.NAME).is_file():
        raise BundleError(
            f"{folder} holds files and is no bundle", hint="Name an empty folder, or one that does not exist."
        )


def tables_of(plan: Plan, registry: Registry) -> list[Table]:
    """The tables of the plan's kernels."""
    return list({table.path: table for table in map(registry.table_of, plan.kernels)}.values())


def build_kernels(
    plan: Plan,
    registry: Registry,
    folder: Path,
    *,
    toolchain: HostToolchain | None = None,
    jobs: int | None = None,
    launcher: Sequence[str] | None = None,
    progress: Progress | None = None,
) -> BuildReport:
    """Compiles the kernels that the build cache lacks, and links the bundle's libraries, which replace those
    in the folder. If a kernel fails (`BuildReport.ok`), a bundle that the folder holds stays as it is."""
    if not (folder / manifest.NAME).exists():
        _begin(folder)
    for left in folder.glob(f"{_DRAFT}*"):  # by a run that was killed
        shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=_DRAFT) as place:
        draft = Path(place)
        report = build(
            tables_of(plan, registry),
            plan.kernels,
            toolchain=toolchain,
            destination=Store(draft / "store"),
            jobs=jobs,
            launcher=launcher,
            progress=progress,
        )
        if report.ok:
            _begin(folder)
            if (folder / LIBRARIES).exists():
                (folder / LIBRARIES).rename(draft / "replaced")
            (draft / "store" / LIBRARIES).rename(folder / LIBRARIES)
            shutil.rmtree(draft / "replaced", ignore_errors=True)
    return report


def write(plan: Plan, registry: Registry, folder: Path, reports: Sequence[str]) -> None:
    """Writes `bundle.json`, and the reports' texts, in the order of REPORTS."""
    _begin(folder)
    for name, text in zip(REPORTS, reports, strict=True):
        writing.write(folder / name, text)
    writing.write(folder / manifest.NAME, plan.manifest(registry).text())


def _begin(folder: Path) -> None:
    """Marks the folder as a bundle that is not whole."""
    folder.mkdir(parents=True, exist_ok=True)
    writing.write(folder / manifest.NAME, _UNFINISHED)


def library_bytes(folder: Path) -> int:
    """The bytes of the bundle's libraries."""
    return sum(path.stat().st_size for path in (folder / LIBRARIES).glob("*/*/*.so"))
