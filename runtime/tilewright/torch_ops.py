"""Importing this registers every op with torch: `torch.ops.tilewright.*`.

An op registers itself when it is first used through `tilewright`; this is for programs that name the ops
without doing so, such as one that loads an exported program:

    import tilewright.torch_ops
    program = torch.export.load("block.pt2")
"""

from __future__ import annotations

from tilewright.declarations import catalog

for _family in catalog.names():
    catalog.family_module(_family, "op")
