"""What a build asks of a compiler. `nvcc/` and `host_compiler.py` are two; `compilers.py` lists them.

A compiler is a class of one instance. It holds nothing of a machine: a toolchain says where programs and
headers are. The defaults are right for a C++ compiler that makes no machine code for a GPU.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from tilewright.declarations.table import KernelRecord

if TYPE_CHECKING:  # what lists libraries asks for flags alone
    from tilewright.compile.findings import Finding
    from tilewright.compile.machine_code import MachineCode
    from tilewright.compile.toolchain import HostToolchain


class Compiler(ABC):
    """Makes the object of a kernel, and that of its module's table.cc.

    Methods that take a toolchain are given what `part` answers.
    """

    name: ClassVar[str]  # in the row of a kernel: `compiler`
    suffix: ClassVar[str]  # of the sources that it compiles, with the dot
    programs: ClassVar[tuple[str, ...]] = ()  # what `find` may be given: options of `tilewright build`
    remedy: ClassVar[str] = ""  # what makes kernels compile that `refusal` is about, if it does not say it
    # A line of its output that says what is wrong with a source. Other failures are the machine's.
    diagnosis: ClassVar[str] = r"(?m)^.+(?:\(\d+\)|:\d+:\d+): (?:fatal |catastrophic )?error\b"

    # Its programs.

    @abstractmethod
    def find(self, **programs: str | Path) -> HostToolchain:
        """Finds the compiler's toolchain. A path among `programs` is used or refused; no other program
        replaces it.

        Raises ToolchainError if a part is missing.
        """

    @abstractmethod
    def part(self, toolchain: HostToolchain, *, cutlass: bool) -> HostToolchain:
        """The part of a build's toolchain that the compiler uses for units that include CUTLASS's headers, or
        for the others. Raises ToolchainError if it is missing."""

    # What decides an object.

    @abstractmethod
    def flags(self, record: KernelRecord) -> tuple[str, ...]:
        """The flags of a kernel, without paths. They are part of its key and of its source key."""

    @abstractmethod
    def table_flags(self) -> tuple[str, ...]:
        """The flags of a module's table.cc, without paths."""

    def inputs(self, toolchain: Any, memory: Path, *, keep: bool) -> tuple[str, ...]:
        """Further parts of a kernel's key: digests of programs and header trees. `memory` remembers
        digests; with `keep` they are written there."""
        return (self.name, toolchain.identity)

    def meaning(self, source: bytes) -> bytes:
        """The part of a source that a kernel's source key covers: without comments and layout."""
        from tilewright.compile.meaning import meaning  # noqa: PLC0415 (a lookup needs no source's meaning)

        return meaning(source)

    def host_meaning(self, source: bytes) -> bytes:
        """The part of a source that a kernel's host key covers: what runs on the host."""
        from tilewright.compile.meaning import host_meaning  # noqa: PLC0415

        return host_meaning(source)

    def headers_release(self, record: KernelRecord, release: str) -> str:
        """The release of the toolchain's headers as a kernel's source key holds it; empty if it does not."""
        return ""

    def header_trees(self, toolchain: Any) -> tuple[Path, ...]:
        """Folders that a kernel's source may include from besides tilewright's and the system's."""
        return ()

    # Whether it compiles a kernel, and how.

    def require(self, toolchain: Any, arch: str) -> None:  # noqa: B027 (the default requires nothing)
        """Raises ToolchainError if the compiler cannot compile for a target."""

    def refusal(self, record: KernelRecord, toolchain: Any, cutlass: bool) -> str:
        """Why this toolchain's headers cannot compile a kernel; empty if they can. `cutlass`: its source
        includes CUTLASS's headers."""
        return ""

    def obstacle(self, record: KernelRecord) -> str:
        """Why no toolchain on this machine can compile a kernel; empty if nothing is known. Starts no
        process."""
        return ""

    @abstractmethod
    def command(
        self,
        toolchain: Any,
        include: Path,
        source: Path,
        flags: Sequence[str],
        launcher: Sequence[str],
    ) -> list[str]:
        """Compiles `source` to kernel.o, with kernel.d, in the current folder."""

    # What it says and makes.

    def errors(self, log: str) -> list[str]:
        """The first errors of its output, each with the lines that follow it."""
        from tilewright.compile.first_errors import first_errors  # noqa: PLC0415

        return first_errors(log.splitlines())

    def disassembler(self, toolchain: Any) -> str:
        """The program that `machine_code` uses; empty if it uses none."""
        return ""

    def machine_code(self, disassembler: str, objects: Sequence[Path]) -> list[MachineCode]:
        """The machine code of objects of one target."""
        from tilewright.compile.keys import file_sha256  # noqa: PLC0415
        from tilewright.compile.machine_code import MachineCode  # noqa: PLC0415

        return [MachineCode({}, file_sha256(path)[:32]) for path in objects]

    def report(self, path: Path, name: str, log: str, code: MachineCode) -> dict[str, Any]:
        """What an object's report says of a kernel: the keys of `schemas.MEASURED`, and others."""
        from tilewright.compile.machine_code import inspect  # noqa: PLC0415

        return inspect(path, name, code.functions)

    def judge(self, record: KernelRecord, report: Mapping[str, Any], cutlass: bool) -> list[Finding]:
        """What is wrong with a compiled kernel, given the row that asks for it."""
        from tilewright.compile.findings import judge_facts  # noqa: PLC0415

        return judge_facts(record, report)

    def exceptions(
        self, record: KernelRecord, report: Mapping[str, Any], cutlass: bool
    ) -> list[dict[str, str]]:
        """Hazards that are not findings, each with the reason."""
        return []
