"""The toolchain of a build: the host compiler, and what a compiler adds to it (`nvcc/toolchain.py`).

Host compiler: CXX, else g++.
"""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar

from tilewright.compile.compiler_cache import words_of
from tilewright.compile.system import run
from tilewright.errors import ToolchainError

_CXX_HINT = "Set CXX to a C++17 compiler, or unset it: g++ is taken then."
_HOST_HINT = "Install g++ with the system's package manager, or name a C++17 compiler in CXX."


@dataclass(frozen=True)
class HostToolchain:
    """The host compiler, which compiles tables and links libraries. Paths are absolute.

    A compiler with programs of its own has a subclass.
    """

    # Variables that change what the programs do without standing on the command line.
    influences: ClassVar[tuple[str, ...]] = (
        "CPATH",
        "C_INCLUDE_PATH",
        "CPLUS_INCLUDE_PATH",
        "GCC_EXEC_PREFIX",
        "COMPILER_PATH",
    )

    host: tuple[str, ...]  # the host compiler's command; CXX may hold flags
    host_version: str
    machine: str  # that the host compiler compiles for, e.g. "x86_64"

    @property
    def runtime_includes(self) -> tuple[Path, ...]:
        """The headers of the runtime that launches the kernels."""
        return ()

    @property
    def link_options(self) -> tuple[str, ...]:
        """The options that link that runtime into a library."""
        return ()

    @property
    def named_paths(self) -> dict[str, Path]:
        """The paths that commands name, by what messages call them."""
        return {}

    @property
    def headers_release(self) -> str:
        """The release of the headers that kernels include from elsewhere, e.g. "4.2.0"; empty without any."""
        return ""

    @property
    def versions(self) -> tuple[str, ...]:
        """The versions of programs, and options of theirs, that decide an object."""
        return (" ".join(self.host[1:]), self.host_version, self.machine)

    @cached_property
    def identity(self) -> str:
        """A text of everything in the toolchain that decides an object. It has no paths: machines with equal
        toolchains have equal texts."""
        variables = [f"{name}={os.environ[name]}" for name in self.influences if os.environ.get(name)]
        return "\n".join([*self.versions, *variables])

    @cached_property
    def system_includes(self) -> tuple[Path, ...]:
        """The folders the host compiler searches by itself: its own and the C library's headers.

        Besides, where the links in asm/ lead: on Debian these headers may lie in /usr/lib/linux/uapi, and GCC
        names a link's target if that is the shorter path.
        """
        text = run([*self.host, "-E", "-x", "c++", "-v", os.devnull])
        listed = re.search(r"search starts here:\n(.*?)End of search list", text, re.DOTALL)
        names = re.findall(r"^ (\S.*)$", listed[1], re.MULTILINE) if listed else ["/usr/include", "/usr/lib"]
        folders = [Path(name).resolve() for name in names]
        linked = {header.resolve().parent for folder in folders for header in folder.glob("asm/*.h")}
        return (*folders, *sorted(linked))

    def describe(self) -> dict[str, str]:
        """The releases of the programs, for people and records."""
        return {"host": self.host_version.splitlines()[0]}

    def host_alone(self) -> HostToolchain:
        """The host compiler without what a subclass adds."""
        return HostToolchain(self.host, self.host_version, self.machine)


def find_host_toolchain() -> HostToolchain:
    """Finds the host compiler alone. Raises ToolchainError if it is missing."""
    tried: list[str] = []
    host = find_host(tried)
    if host is None:
        lines = "\n".join(f"  {line}" for line in tried)
        raise ToolchainError(f"no usable host compiler; tried\n{lines}", hint=host_hint())
    return HostToolchain(host, *host_facts(host))


def host_hint() -> str:
    """The hint for a missing host compiler."""
    return _CXX_HINT if os.environ.get("CXX") else _HOST_HINT


def host_facts(host: tuple[str, ...]) -> tuple[str, str]:
    """The version of a host compiler, and the machine that it compiles for."""
    return run([*host, "--version"]).strip(), run([*host, "-dumpmachine"]).strip().split("-")[0]


def find_host(tried: list[str]) -> tuple[str, ...] | None:
    """The host compiler's command; None if it is missing, and then `tried` gets a line that says where it was
    looked for."""
    named = os.environ.get("CXX")
    command = words_of(named, "CXX") if named else ["g++"]
    if len(command) > 1 and Path(command[0]).name in ("ccache", "sccache", "distcc"):
        command = command[1:]  # nvcc's -ccbin wants the compiler itself; --launcher is the place for these
    path = shutil.which(command[0])
    if path is None:
        tried.append(f"host compiler from {'CXX' if named else 'PATH'}: no {command[0]}")
        return None
    return (path, *command[1:])
