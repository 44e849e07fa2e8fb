"""The host's C++ compiler, for kernels that run on the CPU, on tensors of the CPU.

Tests run whole calls with such kernels on machines without a GPU, and without nvcc.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tilewright.compile.commands import OUTPUTS, includes
from tilewright.compile.compiler import Compiler
from tilewright.declarations.table import KernelRecord

if TYPE_CHECKING:
    from tilewright.compile.toolchain import HostToolchain

_FLAGS = ("-O1", "-fPIC", "-fvisibility=hidden")


class HostCompiler(Compiler):
    """C++ to an object for the host's processor. A row's target says as which GPU's its kernel is chosen."""

    name = "host"
    suffix = ".cpp"

    def find(self, **programs: str | Path) -> HostToolchain:
        from tilewright.compile.toolchain import find_host_toolchain  # noqa: PLC0415

        return find_host_toolchain()

    def part(self, toolchain: HostToolchain, *, cutlass: bool) -> HostToolchain:
        return toolchain.host_alone()

    def flags(self, record: KernelRecord) -> tuple[str, ...]:
        return (f"-std={record.standard}", *_FLAGS, *(f"-D{define}" for define in record.defines))

    def table_flags(self) -> tuple[str, ...]:
        return ("-std=c++17", *_FLAGS, "-DTILEWRIGHT_DEVICE_TYPE=kDLCPU")

    def command(
        self,
        toolchain: HostToolchain,
        include: Path,
        source: Path,
        flags: Sequence[str],
        launcher: Sequence[str],
    ) -> list[str]:
        return [*launcher, *toolchain.host, *flags, *includes(include), *OUTPUTS, "-c", str(source)]
