"""The PTX that CuTe-DSL makes of a kernel's source."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tilewright.base import paths
from tilewright.declarations.table import KernelRecord, Table

MAKE_PTX = """
import sys
from pathlib import Path
from tilewright.compile.cute_dsl import unit

source, include, scratch, arch = *map(Path, sys.argv[1:4]), sys.argv[4]
unit._prepare(arch, scratch)
unit._offer([f"-I{include}"])
loaded = unit._load(source)
program = unit._shared(loaded, [f"-I{include}"]).Program(**loaded.SETTINGS)
ptx = unit.named(unit._compiled(program, scratch), "kernel", program.PARAMETERS)
Path(scratch, "kernel.ptx").write_text(ptx)
"""


def ptx_of(table: Table, record: KernelRecord, folder: Path) -> str:
    """The PTX of a table's kernel. `folder` is an empty folder for its files.

    A process of its own makes it, because CuTe-DSL reads the target when it is imported.
    """
    script, scratch = folder / "make_ptx.py", folder / "scratch"
    script.write_text(MAKE_PTX)
    words = [table.source(record), paths.include_dir(), scratch, record.arch]
    subprocess.run([sys.executable, str(script), *map(str, words)], check=True)
    return (scratch / "kernel.ptx").read_text()
