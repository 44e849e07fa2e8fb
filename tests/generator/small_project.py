"""What `generate` writes for the project of the fixture `project`, and edits of that project."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

Tree = Callable[[Path], dict[str, tuple[bytes, int]]]
NAMES = {
    f"small/{name}"
    for name in (
        "tiny_bf16_128x128x64_1x1.cu",
        "tiny_bf16_128x128x64_1x1_fast.cu",
        "tiny_bf16_64x64x64_1x1.cu",
        "tiny_bf16_64x64x64_1x1_fast.cu",
        "table.json",
        "table.cc",
        "manifest.txt",
    )
}
FAST = "small/tiny_bf16_64x64x64_1x1_fast.cu"


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


LEFT_OUT = [f"tiny_bf16_256x64x64_1x1{fast}" for fast in ("", "_fast")]
