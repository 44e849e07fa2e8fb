"""Lines of `tilewright tune` that tests read."""

from __future__ import annotations


def problem_lines(lines: list[str]) -> list[str]:
    return lines[lines.index("Problems, tactics that fit, and those that the cost model leaves:") + 1 :]
