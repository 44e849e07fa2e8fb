"""The PTX that CuTe-DSL makes of a kernel's source."""

from __future__ import annotations

import functools
import subprocess
import sys
import tempfile
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


def ptx_of(table: Table, record: KernelRecord) -> str:
    """The PTX of a table's kernel, which is made once."""
    return _ptx(table.source(record), record.arch)


@functools.cache
def _ptx(source: Path, arch: str) -> str:
    """A process of its own makes it, because CuTe-DSL reads the target when it is imported."""
    with tempfile.TemporaryDirectory() as folder:
        script, scratch = Path(folder, "make_ptx.py"), Path(folder, "scratch")
        script.write_text(MAKE_PTX)
        words = [source, paths.include_dir(), scratch, arch]
        subprocess.run([sys.executable, str(script), *map(str, words)], check=True)
        return (scratch / "kernel.ptx").read_text()
