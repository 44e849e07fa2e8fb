"""A module's shared library in this process."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewright.base import paths
from tilewright.errors import NotBuiltError

if TYPE_CHECKING:
    from tilewright.declarations.arguments import Launchable

log = logging.getLogger("tilewright")

# Returns 0, a cudaError_t (positive) or a negative status of tilewright/launcher.hpp.
Launcher = Callable[..., int]
# `Status` of launcher.hpp. The index of the operand or number is subtracted (ALIASED: two indices as one).
MISALIGNED, UNPLANNED, OVERFLOW, ALIASED = -100, -200, -300, -1000
MOST_OPERANDS = 64  # kMostOperands of launcher.hpp


class Library:
    """The functions that a table source exports (`tilewright/launcher.hpp`), called from Python.

    Libraries are never unloaded, because launchers point into their code.
    """

    def __init__(self, path: Path) -> None:
        """Raises NotBuiltError if the file is not the linked one, does not load, or has another ABI;
        CacheRefusedError if another user may have put it there."""
        import tvm_ffi  # noqa: PLC0415 (importing tilewright must stay quick)

        from tilewright.compile import trust  # noqa: PLC0415
        from tilewright.compile.library import cache_of, damage  # noqa: PLC0415

        self.path = path
        trust.check(path, cache_of(path) or path.parent)
        if reason := damage(path):  # before any of its code can run
            raise NotBuiltError(reason, hint="Build it again.")
        try:
            self._module: Any = tvm_ffi.load_module(str(path))
            abi = int(self._module.abi_version())
            self.kernels = frozenset(map(str, self._module.kernels()))
        except (RuntimeError, AttributeError) as error:
            raise NotBuiltError(f"{path} does not load: {error}", hint="Build it again.") from error
        expected = header_abi()
        if abi != expected:
            raise NotBuiltError(f"{path} has ABI {abi}, this tilewright {expected}", hint="Build it again.")

    def can_implement(self, kernel: str, arguments: bytes) -> bool:
        """Whether the kernel takes the problem (`declarations.arguments.packed`); touches no GPU."""
        return bool(self._module.can_implement(kernel, arguments))

    def workspace_bytes(self, kernel: str, arguments: bytes) -> int:
        """The bytes of workspace that a launch needs; touches no GPU. Raises ValueError if the kernel does
        not take the problem."""
        return int(self._module.workspace_bytes(kernel, arguments))

    def launcher(self, kernel: str, launchable: Launchable) -> Launcher:
        """A function object that launches the kernel; it takes operands, numbers, and a workspace or None."""
        launcher: Launcher = self._module.launcher(kernel, *launchable)
        return launcher

    def first_planned(self, launchers: Sequence[Launcher]) -> Launcher:
        """A launcher that calls the first of these, of any libraries, that was made for a call's layouts."""
        launcher: Launcher = self._module.first_planned(launchers)
        return launcher


@functools.cache
def header_abi() -> int:
    """TILEWRIGHT_ABI_VERSION of this runtime's headers."""
    text = (paths.include_dir() / "tilewright" / "abi.h").read_text(encoding="utf-8")
    return int(text.split("#define TILEWRIGHT_ABI_VERSION", 1)[1].split(None, 1)[0])


@functools.cache
def load(path: Path) -> Library:
    """The library at `path`, loaded once in a process."""
    log.debug("loading %s", path)
    return Library(path)
