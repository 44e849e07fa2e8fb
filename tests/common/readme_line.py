"""The line that README's tour adds to a spec. A reader who has committed it takes the tour's tests along."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

SPEC = "specs/sm90_gemm_lean.yaml"
LINE = "  - {<<: *bf16, tile: 192x112x64}\n"
KERNEL = "gemm_sm90_bf16_bf16_f32_bf16_tn_192x112x64_lean_coop"


def remove(project: Path, generate: Callable[[], object]) -> None:
    """Takes the line out of a copy of the project, if it is there, and generates."""
    spec = project / SPEC
    text = spec.read_text(encoding="utf-8")
    if LINE in text:
        spec.write_text(text.replace(LINE, ""), encoding="utf-8")
        generate()
    table = (project / "generated/sm90_gemm_lean/table.json").read_text(encoding="utf-8")
    assert KERNEL not in table, f"{project} has {KERNEL}, and not by README's line"


def add(project: Path) -> None:
    with (project / SPEC).open("a", encoding="utf-8") as spec:
        spec.write(LINE)
