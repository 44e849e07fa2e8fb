"""nvcc: its flags and commands, and the checks of the machine code that it makes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.compile.commands import OUTPUTS, includes
from tilewright.compile.compiler import Compiler, first_errors
from tilewright.declarations.table import KernelRecord

if TYPE_CHECKING:
    from tilewright.compile.disassembly import MachineCode
    from tilewright.compile.findings import Finding
    from tilewright.compile.toolchain import HostToolchain, Toolchain

# Else an object holds the names of intermediate files, in which is the number of nvcc's process: no two
# compiles of a source would be equal. Not for launchers, which take nvcc's steps apart and know these names.
_REPRODUCIBLE = ("--objdir-as-tempdir",)

# Of C++17, libstdc++'s <cmath>, which nvcc includes in every unit, has the special functions: read and
# instantiated by cudafe++, cicc and g++, they take 0.2 s, of a lean unit's 1.35. Such units are compiled as
# C++14, in which all of these take `if constexpr` as an extension; nvcc warns of it (2912).
_STANDARDS = {"c++17": ("-std=c++17",), "c++14": ("-std=c++14", "-diag-suppress=2912")}
_KERNEL_FLAGS = (
    "-O3",
    "-DNDEBUG",  # an assert is a function call in device code, and ptxas then serialises wgmma (C7510)
    "--expt-relaxed-constexpr",
    "-Xptxas=-v",
    "-Xcompiler=-fPIC,-fvisibility=hidden",
)
# A table is what the first call of a kernel that is not built waits for: -O2 takes g++ 3.8 s for 2.7, and a
# plan's call 0.02 us less of 0.98 (benchmarks/host/host_calls.py).
_TABLE_FLAGS = ("-std=c++17", "-O1", "-DNDEBUG", "-fPIC", "-fvisibility=hidden")


class Nvcc(Compiler):
    """CUDA C++ to an object with machine code of one target. The host compiler makes the table."""

    name = "nvcc"
    suffix = ".cu"
    diagnosis = re.compile(
        rf"{Compiler.diagnosis.pattern}|^(?:nvcc|ptxas|nvlink)\b.*\b(?:error|fatal)\s*:", re.MULTILINE
    )

    def flags(self, record: KernelRecord) -> tuple[str, ...]:
        compute = record.arch.replace("sm_", "compute_")
        return (
            *_STANDARDS[record.standard],
            *_KERNEL_FLAGS,
            f"-gencode=arch={compute},code={record.arch}",
            *(f"-D{define}" for define in record.defines),
        )

    def table_flags(self) -> tuple[str, ...]:
        return _TABLE_FLAGS

    def toolchain(self, toolchain: HostToolchain) -> Toolchain:
        return toolchain.with_nvcc()

    def inputs(self, toolchain: HostToolchain, memory: Path, *, keep: bool) -> tuple[str, ...]:
        from tilewright.compile.keys import files_digest, tree_digest  # noqa: PLC0415

        full = toolchain.with_nvcc()
        parts = {path.name: path for path in full.parts}
        return (
            tree_digest(full.cutlass, memory, keep=keep),
            files_digest(parts, memory, f"parts of {full.nvcc}", keep=keep),
            full.identity,
        )

    def headers_release(self, record: KernelRecord, release: str) -> str:
        from tilewright.compile.cutlass import keyed_release  # noqa: PLC0415

        return keyed_release(release, record.cutlass)

    def header_trees(self, toolchain: HostToolchain) -> tuple[Path, ...]:
        return (toolchain.with_nvcc().cutlass,)

    def require(self, toolchain: HostToolchain, arch: str) -> None:
        toolchain.with_nvcc().require(arch)

    def refusal(self, record: KernelRecord, toolchain: HostToolchain) -> str:
        from tilewright.compile.cutlass import satisfies  # noqa: PLC0415

        full = toolchain.with_nvcc()
        if satisfies(full.cutlass_version, record.cutlass):
            return ""
        return (
            f"needs CUTLASS {record.cutlass}, the headers at {full.cutlass} are "
            f"{full.cutlass_version or 'of no known release'}; pass --cutlass"
        )

    def command(
        self,
        toolchain: HostToolchain,
        include: Path,
        source: Path,
        flags: Sequence[str],
        launcher: Sequence[str],
    ) -> list[str]:
        full = toolchain.with_nvcc()
        host, *host_flags = full.host
        return [
            *launcher,
            str(full.nvcc),
            f"-ccbin={host}",
            *(f"-Xcompiler={flag}" for flag in host_flags),
            *flags,
            *includes(include),
            f"-I{full.cutlass}",
            *(() if launcher else _REPRODUCIBLE),
            *OUTPUTS,
            "-c",
            str(source),
        ]

    def errors(self, log: str) -> list[str]:
        return first_errors(line for line in log.splitlines() if not line.startswith("ptxas info"))

    def disassembler(self, toolchain: HostToolchain) -> str:
        return str(toolchain.with_nvcc().cuobjdump)

    def machine_code(self, disassembler: str, objects: Sequence[Path]) -> list[MachineCode]:
        from tilewright.compile.disassembly import disassemble  # noqa: PLC0415

        return disassemble(disassembler, objects)

    def report(self, path: Path, name: str, log: str, code: MachineCode) -> dict[str, Any]:
        from tilewright.compile.machine_code import inspect  # noqa: PLC0415

        return inspect(path, name, log, code.functions)

    def judge(self, record: KernelRecord, report: Mapping[str, Any], cutlass: bool) -> list[Finding]:
        from tilewright.compile.findings import judge  # noqa: PLC0415

        return judge(record, report, cutlass)

    def exceptions(
        self, record: KernelRecord, report: Mapping[str, Any], cutlass: bool
    ) -> list[dict[str, str]]:
        from tilewright.compile.findings import exceptions  # noqa: PLC0415

        return exceptions(record, report, cutlass)
