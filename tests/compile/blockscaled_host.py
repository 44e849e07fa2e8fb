"""What the tests of the host side of block-scaled kernels ask of a compiled kernel."""

from __future__ import annotations

from typing import Any

from compiled_kernels import HOPPER, STREAM_K, TWO_SM, ULTRA, Compiled

from tilewright.architectures.device import B200, B300, H200, RTX_PRO_6000
from tilewright.declarations.arguments import packed
from tilewright.declarations.tactics import Tactic
from tilewright.families.blockscaled_gemm.interface import INTERFACE
from tilewright.families.blockscaled_gemm.problem import Problem
from tilewright.libraries.library import Library, load

DEVICES = {TWO_SM: B200, ULTRA: B300, STREAM_K: RTX_PRO_6000, HOPPER: H200}
GOOD = (256, 512, 1024)


def ask(kernel: Compiled, shape: tuple[int, ...], **tactic: Any) -> tuple[Library, str, bytes]:
    """The library, and what its functions take for a problem (m, n, k[, batch])."""
    problem, device = Problem(*(*shape, 1)[:4]), DEVICES[kernel.record.name]
    name = kernel.record.name
    return load(kernel.library), name, packed(INTERFACE, problem, Tactic(name, **tactic), device.sm_count)


def takes(kernel: Compiled, shape: tuple[int, ...], **tactic: Any) -> bool:
    library, *question = ask(kernel, shape, **tactic)
    return library.can_implement(*question)


def workspace(kernel: Compiled, shape: tuple[int, ...], **tactic: Any) -> int:
    library, *question = ask(kernel, shape, **tactic)
    return library.workspace_bytes(*question)
