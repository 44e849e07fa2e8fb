"""nvcc: its flags and commands, and the checks of the machine code that it makes."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.architectures.table import find_target
from tilewright.compile.commands import OUTPUTS, includes
from tilewright.compile.compiler import Compiler
from tilewright.declarations.table import KernelRecord
from tilewright.errors import ToolchainError

if TYPE_CHECKING:
    from tilewright.compile.findings import Finding
    from tilewright.compile.machine_code import MachineCode
    from tilewright.compile.nvcc.toolchain import NvccToolchain
    from tilewright.compile.toolchain import HostToolchain

# Else an object holds the names of intermediate files, in which is the number of nvcc's process: no two
# compiles of a source would be equal. Not for launchers, which run nvcc's steps one by one by these names.
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


def _needed_nvcc(record: KernelRecord) -> str:
    """The first release that compiles for the kernel's target; empty if all that a build takes do."""
    architecture = find_target(record.arch)
    return "" if architecture is None else architecture.nvcc


class Nvcc(Compiler):
    """CUDA C++ to an object with machine code of one target. The host compiler makes the table."""

    name = "nvcc"
    suffix = ".cu"
    programs = ("nvcc", "cutlass")
    remedy = "Where a call builds its kernel, CUTLASS_PATH names the headers."
    diagnosis = rf"{Compiler.diagnosis}|^(?:nvcc|ptxas|nvlink)\b.*\b(?:error|fatal)\s*:"

    def find(self, **programs: str | Path) -> NvccToolchain:
        from tilewright.compile.nvcc.toolchain import find_toolchain  # noqa: PLC0415

        return find_toolchain(**programs)

    def part(self, toolchain: HostToolchain, *, cutlass: bool) -> NvccToolchain:
        from tilewright.compile.nvcc.toolchain import INSTALL_HINT, NvccToolchain  # noqa: PLC0415

        if isinstance(toolchain, NvccToolchain):
            return toolchain if cutlass else toolchain.without_cutlass
        raise ToolchainError("this toolchain has no nvcc", hint=INSTALL_HINT)

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

    def inputs(self, toolchain: NvccToolchain, memory: Path, *, keep: bool) -> tuple[str, ...]:
        from tilewright.compile.keys import files_digest  # noqa: PLC0415
        from tilewright.compile.trees import tree_digest  # noqa: PLC0415

        parts = {path.name: path for path in toolchain.parts}
        return (
            *(tree_digest(tree, memory, keep=keep) for tree in self.header_trees(toolchain)),
            files_digest(parts, memory, f"parts of {toolchain.nvcc}", keep=keep),
            toolchain.identity,
        )

    def headers_release(self, record: KernelRecord, release: str) -> str:
        from tilewright.compile.nvcc.cutlass import keyed_release  # noqa: PLC0415

        return keyed_release(release, record.cutlass)

    def header_trees(self, toolchain: NvccToolchain) -> tuple[Path, ...]:
        return () if toolchain.cutlass is None else (toolchain.cutlass,)

    def require(self, toolchain: NvccToolchain, arch: str) -> None:
        toolchain.require(arch)

    def refusal(self, record: KernelRecord, toolchain: NvccToolchain, cutlass: bool) -> str:
        from tilewright.compile.nvcc.cutlass import satisfies  # noqa: PLC0415

        release = _needed_nvcc(record)
        if release and not satisfies(toolchain.release, release):
            return f"needs nvcc {release}, {toolchain.nvcc} is {toolchain.release}"
        needed = f"CUTLASS {record.cutlass}".rstrip()
        if toolchain.cutlass is None:
            remedy = "pip install nvidia-cutlass, or pass --cutlass"
            lacking = f"needs {needed}, and no headers of it are installed: {remedy}"
            return lacking if cutlass or record.cutlass else ""
        if satisfies(toolchain.cutlass_version, record.cutlass):
            return ""
        return (
            f"needs {needed}, the headers at {toolchain.cutlass} are "
            f"{toolchain.cutlass_version or 'of no known release'}; pass --cutlass"
        )

    def obstacle(self, record: KernelRecord) -> str:
        needed = _needed_nvcc(record)
        if not needed and not record.cutlass:
            return ""
        from tilewright.compile.nvcc.cutlass import installed_release, satisfies  # noqa: PLC0415
        from tilewright.compile.nvcc.toolchain import cuda_release  # noqa: PLC0415

        if needed and not satisfies(cuda_release() or "", needed):
            return f"it needs nvcc {needed}"
        if satisfies(installed_release(os.environ.get("CUTLASS_PATH")), record.cutlass):
            return ""
        return f"it needs CUTLASS {record.cutlass}"

    def command(
        self,
        toolchain: NvccToolchain,
        include: Path,
        source: Path,
        flags: Sequence[str],
        launcher: Sequence[str],
    ) -> list[str]:
        host, *host_flags = toolchain.host
        return [
            *launcher,
            str(toolchain.nvcc),
            f"-ccbin={host}",
            *(f"-Xcompiler={flag}" for flag in host_flags),
            *flags,
            *includes(include),
            *(f"-I{tree}" for tree in self.header_trees(toolchain)),
            *(() if launcher else _REPRODUCIBLE),
            *OUTPUTS,
            "-c",
            str(source),
        ]

    def errors(self, log: str) -> list[str]:
        from tilewright.compile.first_errors import first_errors  # noqa: PLC0415

        return first_errors(line for line in log.splitlines() if not line.startswith("ptxas info"))

    def disassembler(self, toolchain: NvccToolchain) -> str:
        return str(toolchain.cuobjdump)

    def machine_code(self, disassembler: str, objects: Sequence[Path]) -> list[MachineCode]:
        from tilewright.compile.nvcc.disassembly import disassemble  # noqa: PLC0415

        return disassemble(disassembler, objects)

    def report(self, path: Path, name: str, log: str, code: MachineCode) -> dict[str, Any]:
        from tilewright.compile.machine_code import inspect  # noqa: PLC0415
        from tilewright.compile.nvcc.listings import parse_ptxas  # noqa: PLC0415

        ptxas = parse_ptxas(log)
        return inspect(path, name, code.functions, ptxas.functions.values(), ptxas.warnings)

    def judge(self, record: KernelRecord, report: Mapping[str, Any], cutlass: bool) -> list[Finding]:
        from tilewright.compile.nvcc.checks import judge  # noqa: PLC0415

        return judge(record, report, cutlass)

    def exceptions(
        self, record: KernelRecord, report: Mapping[str, Any], cutlass: bool
    ) -> list[dict[str, str]]:
        from tilewright.compile.nvcc.checks import exceptions  # noqa: PLC0415

        return exceptions(record, report, cutlass)
