"""The words of `scale_columns` problems."""

from __future__ import annotations

from tilewright.declarations.vocabulary import Extent, Types, Words
from tilewright.families.scale_columns.problem import ATOMS, LAYOUTS, Problem

WORDS = Words(
    family="scale_columns",
    summary="Scales of f32 as the columns that kernels read.",
    problem=Problem,
    extents=(
        Extent("m", "Rows of scales.", usual=4096),
        Extent("columns", "Columns of scales: k/128.", usual=56),
        Extent("batch", "Number of matrices.", usual=1, default=1),
    ),
    types=Types(
        option="--formats",
        default="m_major",
        fields={f"ue8m0_{name}" if name == ATOMS else name: {"layout": name} for name in LAYOUTS},
        help="What they become: m_major (default), floats; packed, words of four exponents; ue8m0_128x4, "
        "bytes.",
    ),
)
