"""Importing this registers every op with torch: `torch.ops.tilewright.*`.

An op registers itself when it is first used through `tilewright`; this is for programs that name the ops
without doing so, such as one that loads an exported program:

    import tilewright.torch_ops
    program = torch.export.load("block.pt2")
"""

from __future__ import annotations

import importlib
import pkgutil

from tilewright import ops

for _module in pkgutil.iter_modules(ops.__path__):
    _package = importlib.import_module(f"{ops.__name__}.{_module.name}")
    for _name in getattr(_package, "OPS", ()):
        getattr(_package, _name)
