"""Tilewright's runtime: routes, selects, builds and runs generated kernels.

`tilewright.<op>` is the op of that name (`tilewright.gemm`). Importing this package compiles nothing and
imports neither torch nor TVM-FFI.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tilewright.context import Context as Context
    from tilewright.device import DeviceProperties as DeviceProperties
    from tilewright.errors import TilewrightError as TilewrightError
    from tilewright.ops.gemm import gemm as gemm
    from tilewright.registry import Registry as Registry

__version__ = "0.1.0"

_HOMES = {
    "Context": "tilewright.context",
    "DeviceProperties": "tilewright.device",
    "Registry": "tilewright.registry",
    "TilewrightError": "tilewright.errors",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(importlib.import_module(_HOMES[name]), name)
    elif name.startswith("_") or (op := _op_module(name)) is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    else:
        value = getattr(op, name)
    globals()[name] = value
    return value


def _op_module(name: str) -> Any:
    try:
        return importlib.import_module(f"tilewright.ops.{name}")
    except ModuleNotFoundError as error:
        if error.name == f"tilewright.ops.{name}":
            return None
        raise
