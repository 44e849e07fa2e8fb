"""Findings of `tilewright doctor`: their levels and texts."""

from __future__ import annotations

from collections.abc import Callable

from tilewright.tools import doctor

Say = Callable[..., list[doctor.Finding]]


def levels(found: list[doctor.Finding]) -> set[str]:
    return {each.level for each in found}


def texts(found: list[doctor.Finding]) -> str:
    return "\n".join(f"{each.level}: {each.text} -> {each.mend}" for each in found)
