"""Kernels of sm_12x for a Hopper GPU: generated units whose block-scaled instruction software computes.

TMA, mbarriers, ldmatrix, epilogue and host code stay as they are generated; software_mma.hpp stands before
each source, which compiles for sm_90a.

    python tests/gpu/software_kernels.py sm120_blockscaled_gemm_lean '*_act'

compiles the kernels of a module that match a glob, without a GPU. Tests take what is in the build cache, or
in a folder of TILEWRIGHT_LIBRARIES; unless that is all, they compile.
"""

from __future__ import annotations

import fnmatch
import hashlib
import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from tilewright import context as contexts
from tilewright.base import paths
from tilewright.compile.building import build
from tilewright.context import Context
from tilewright.declarations.table import Table
from tilewright.errors import ToolchainError
from tilewright.libraries.registry import Registry

HERE = Path(__file__).parent


def software_rows(module: str) -> list[dict[str, Any]]:
    """The shipped rows of a module's kernels that need the block-scaled instruction."""
    table = json.loads((paths.shipped_generated_dir() / module / "table.json").read_text(encoding="utf-8"))
    return [row for row in table["kernels"] if row["config"].get("scales", "ue8m0").endswith("ue8m0")]


def write_module(folder: Path, module: str) -> Table:
    """Writes the module with these kernels below `folder`."""
    shipped, target = paths.shipped_generated_dir() / module, folder / module
    head = json.loads((shipped / "table.json").read_text(encoding="utf-8")) | {"kernels": []}
    rows = software_rows(module)
    before = (HERE / "software_mma.hpp").read_text(encoding="utf-8").replace("#pragma once\n", "")
    target.mkdir(parents=True)
    for row in rows:
        source = before + (shipped / row["source"]).read_text(encoding="utf-8")
        (target / row["source"]).write_text(source, encoding="utf-8")
        row["sha256"] = hashlib.sha256(source.encode()).hexdigest()
        row["arch"] = row["config"]["arch"] = "sm_90a"
        row["instructions"] = []
    lines = ",\n".join(map(json.dumps, rows))
    table = json.dumps(head).replace("[]}", f"[\n{lines}\n]}}\n")
    (target / "table.json").write_text(table, encoding="utf-8")
    shutil.copy(shipped / "table.cc", target)  # it links with any of the kernels that it names
    return Table.read(target / "table.json")


def fixture(module: str) -> Any:
    """A fixture, `software`: a context with the module's kernels in software. Those of the tests that run are
    compiled first, unless all are built. Skips on GPUs but Hopper's."""

    @pytest.fixture(name="software", scope="module")
    def software(
        request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
    ) -> Iterator[Context]:
        if torch.cuda.get_device_capability() != (9, 0):
            pytest.skip("kernels of sm_90a")
        mine = (item for item in request.session.items if item.path == request.path)
        kernels = {item.callspec.params["kernel"] for item in mine}  # type: ignore[attr-defined]
        folder = tmp_path_factory.mktemp("software")
        table = write_module(folder, module)
        registry = Registry(folder)
        if not all(registry.is_built(table[kernel]) for kernel in kernels):
            try:
                report = build([table], kernels)
            except ToolchainError as error:
                pytest.skip(f"no toolchain: {error}")
            report.raise_for_failures()
            registry = Registry(folder, libraries=lambda _: report.libraries)
        with contexts.use(Context(registry)) as context:
            yield context

    return software


def main(module: str, pattern: str) -> None:
    """Compiles the kernels of a module that match a glob."""
    with tempfile.TemporaryDirectory() as folder:
        table = write_module(Path(folder), module)
        report = build([table], {name for name in table if fnmatch.fnmatchcase(name, pattern)})
    report.raise_for_failures()
    print(f"{len(report.units)} kernels in {', '.join(str(library.path) for library in report.libraries)}")


if __name__ == "__main__":
    main(*sys.argv[1:])
