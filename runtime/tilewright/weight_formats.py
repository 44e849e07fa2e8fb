"""Formats of packed weights, their group sizes, and the shapes of the packed tensors.

Calls and models of packed products need these numbers. What packs and unpacks is in `weight_layout`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

UNIT_N, UNIT_K = 64, 128
"""Rows and columns of a unit, in which a weight is packed."""
GATED_ROWS = 8
"""Rows of each half that follow one another in a packed weight that is gated."""
WHOLE_ROW = -1
"""The group size of a weight that has one scale for each row of n."""
_GROUPS = (128, 64, 32, WHOLE_ROW)
_HALVES = ("bfloat16", "float16")  # the type of the activations


@dataclass(frozen=True, slots=True)
class WeightFormat:
    """A format of packed weights."""

    floating: bool  # codes are E2M1 or E4M3; otherwise integers, code - middle or code - zero
    zeros: bool  # each group has a zero point
    groups: tuple[int, ...]  # legal group sizes along k
    scale_types: tuple[str, ...]  # of the scales, as torch names them
    scale_bytes: int = 1  # of a packed scale
    bits: int = 4  # of a code

    @property
    def typed(self) -> bool:
        """Whether scales have the type of the activations."""
        return self.scale_types == _HALVES

    @property
    def unit_bytes(self) -> int:
        """Bytes of the codes of a unit."""
        return UNIT_N * UNIT_K * self.bits // 8

    @property
    def middle(self) -> int:
        """The code whose value is 0 where there are no zero points."""
        return 0 if self.floating or self.zeros else 1 << self.bits - 1

    def record_bytes(self, group: int) -> int:
        """Bytes of the scales, and zero points, of a unit."""
        of_group = self.scale_bytes * (2 if self.zeros else 1)
        return UNIT_N * (UNIT_K // packed_group(group)) * of_group


FORMATS = {
    "int4": WeightFormat(False, False, _GROUPS, _HALVES, 2),
    "int4_zp": WeightFormat(False, True, _GROUPS, _HALVES, 2),
    "mxfp4": WeightFormat(True, False, (32,), ("float8_e8m0fnu", "uint8")),
    "nvfp4": WeightFormat(True, False, (16,), ("float8_e4m3fn", "uint8")),
    "int8": WeightFormat(False, False, (128, WHOLE_ROW), _HALVES, 2, 8),
    "e4m3": WeightFormat(True, False, (128, WHOLE_ROW), _HALVES, 2, 8),
}


def packed_group(group: int) -> int:
    """The group size of the packed scales: scales of a whole row are repeated for every 128 of k."""
    return UNIT_K if group == WHOLE_ROW else group


def packed_shapes(n: int, k: int, format: str, group: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """The shapes of the packed elements and of the packed scales of a weight [n, k]."""
    down, across = ceil(n / UNIT_N), ceil(k / UNIT_K)
    kind = FORMATS[format]
    return (down, across * kind.unit_bytes), (down, across * kind.record_bytes(group))
