"""A project whose files are written, and what lies hidden in it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import tiny_family

FAST = "small/tiny_bf16_64x64x64_1x1_fast.cu"
SPEC = tiny_family.SPEC
forked = pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")


def hidden(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob(".*"))


def change_template(project: Path, text: str = "// another\n") -> None:
    (project / "templates/tiny/kernel.cu.j2").write_text(tiny_family.TEMPLATE + text)
