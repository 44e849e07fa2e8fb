"""The Python of docs/packed_weights.md: blocks that run anywhere, and those marked `gpu`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

PAGE = (Path(__file__).resolve().parents[2] / "docs/packed_weights.md").read_text(encoding="utf-8")
_BLOCK = re.compile(r"^```python(?: (\w+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCKS = [(mark, code) for mark, code in _BLOCK.findall(PAGE)]
GPU = [code for mark, code in BLOCKS if mark == "gpu"]


def names(upto: str | None = None) -> dict[str, Any]:
    """What the blocks that run anywhere define, all of them or those before the block `upto`."""
    namespace: dict[str, Any] = {}
    for mark, code in BLOCKS:
        if code == upto:
            break
        if mark != "gpu":
            exec(code, namespace)
    return namespace
