"""CuTe-DSL: programs in Python that NVIDIA's nvidia-cutlass-dsl compiles to PTX.

ptxas of the build's toolchain makes machine code of the PTX, as it does for nvcc. So the log, the reports and
the checks of the machine code are nvcc's, and a library holds nothing of CuTe-DSL.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tilewright.compile.commands import DEPFILE, OBJECT, includes
from tilewright.compile.cute_dsl import installed
from tilewright.compile.nvcc.compiler import Nvcc
from tilewright.declarations.table import KernelRecord

if TYPE_CHECKING:
    from tilewright.compile.nvcc.toolchain import NvccToolchain

_HOST = re.compile(rb'(?ms)^HOST = """(.*?)"""')
_HOST_FLAGS = ("-std=c++17", "-O2", "-DNDEBUG", "-fPIC", "-fvisibility=hidden")


class CuteDsl(Nvcc):
    """A program in CuTe-DSL, and the unit of the host in C++ that its source holds, to an object. The rest is
    nvcc's: the toolchain, the table, the checks."""

    name = "cute_dsl"
    suffix = ".py"
    remedy = ""
    diagnosis = rf"{Nvcc.diagnosis}|(?m:^tilewright-cute-dsl: )"

    def flags(self, record: KernelRecord) -> tuple[str, ...]:
        return (f"--arch={record.arch}", f"--release={installed.RELEASE}", *_HOST_FLAGS)

    def inputs(self, toolchain: NvccToolchain, memory: Path, *, keep: bool) -> tuple[str, ...]:
        return (self.name, installed.content(), *super().inputs(toolchain, memory, keep=keep))

    def meaning(self, source: bytes) -> bytes:
        """The source as it is: layout means something in Python."""
        return source

    def host_meaning(self, source: bytes) -> bytes:
        """The meaning of the host unit, a string in the source that g++ compiles."""
        unit = _HOST.search(source)
        return super().host_meaning(unit[1]) if unit else source

    def headers_release(self, record: KernelRecord, release: str) -> str:
        """Empty: programs in CuTe-DSL include no headers of CUTLASS's."""
        return ""

    def refusal(self, record: KernelRecord, toolchain: NvccToolchain, cutlass: bool) -> str:
        return installed.lacking()

    def obstacle(self, record: KernelRecord) -> str:
        return f"it {reason}" if (reason := installed.lacking()) else ""

    def command(
        self,
        toolchain: NvccToolchain,
        include: Path,
        source: Path,
        flags: Sequence[str],
        launcher: Sequence[str],
    ) -> list[str]:
        """The launcher is left out: a compiler cache knows nothing of these programs."""
        arch, _, *host_flags = flags
        return [
            sys.executable,
            "-m",
            "tilewright.compile.cute_dsl.unit",
            str(source),
            arch,
            f"--tools={toolchain.nvcc.parent}",
            f"--object={OBJECT}",
            f"--depfile={DEPFILE}",
            "--",
            *toolchain.host,
            *host_flags,
            *includes(include),
            *(f"-isystem{folder}" for folder in toolchain.runtime_includes),
        ]
