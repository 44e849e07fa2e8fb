"""Builds generated kernels: toolchain, content-keyed cache, ninja, checks of the machine code, libraries.

Needs neither click nor torch. `build` compiles and links; `libraries` lists what can be loaded.
"""

from __future__ import annotations

from tilewright.build.library import LibraryRecord, libraries
from tilewright.build.store import Store

__all__ = ["LibraryRecord", "Store", "libraries"]
