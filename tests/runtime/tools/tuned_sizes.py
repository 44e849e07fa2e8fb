"""Calls of `tilewright tune`, problems that it tunes, and tuned files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tilewright.architectures.device import H200
from tilewright.base import paths
from tilewright.selection import tuned_files
from tilewright.tools.tuning import tuned_writing
from tilewright_generator.cli import invoke

ROOT = Path(__file__).parents[3]
SHAPES = ROOT / "benchmarks" / "shapes" / "gemm.yaml"
SIZES = ["-s", "8x48x64", "-s", "32x48x64"]


def tune(*arguments: Any) -> int:
    return invoke(["tune", *map(str, arguments)])


def written(folder: Path, gpu: str = "NVIDIA H200") -> Path:
    """A folder with a tuned file, of committed kernels."""
    from tilewright.declarations.tactics import Tactic  # noqa: PLC0415
    from tilewright.families.gemm.family import FAMILY  # noqa: PLC0415
    from tilewright.families.gemm.problem import Problem  # noqa: PLC0415
    from tilewright.libraries.registry import Registry  # noqa: PLC0415
    from tilewright.selection.tuned_header import Header  # noqa: PLC0415

    header = Header(gpu, "9.0", 132, "580.1", "13.0", "4.2.0")
    registry = Registry(ROOT / "generated", libraries=lambda module: [])
    entries = []
    for problem, us in (
        (Problem(16, 4096, 7168), 17.0),
        (Problem(4096, 4096, 7168), 330.0),
        (Problem(4096, 4096, 7168, a="e4m3", b="e4m3", fast_accum=True), 190.0),
    ):
        best = FAMILY.rank(registry.route("gemm", H200), problem, H200)[0].tactic
        assert isinstance(best, Tactic)
        entries.append(tuned_files.Entry(problem, best, us * 1e-6))
    tuned_writing.update(paths.tuned_file(folder, gpu, "gemm"), header, FAMILY, entries)
    return folder
