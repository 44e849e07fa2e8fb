"""The `transpose_fp8` family as selection sees it: one kernel does all."""

from __future__ import annotations

from tilewright.ops.common.family import Family
from tilewright.ops.transpose_fp8.problem import Problem
from tilewright.ops.transpose_fp8.words import WORDS


class _Transpose(Family[Problem]):
    words = WORDS
    placement = ("groups",)
    neighbour = "rows"


FAMILY = _Transpose()
