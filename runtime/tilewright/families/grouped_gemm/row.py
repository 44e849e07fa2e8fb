"""What rows of `grouped_gemm` tables say of kernels, as far as this runtime asks."""

from __future__ import annotations

from tilewright.base.schema import Anything, Boolean, Enum, Integer, Object, fields
from tilewright.declarations.row_schemas import PRODUCT_FACTS, TILE
from tilewright.families.grouped_gemm.problem import LAYOUTS, SCALES

_LAYOUT = Enum(LAYOUTS)
_OPERAND, _RESULT = Enum(("bf16", "e4m3")), Enum(("bf16", "f32"))

# That a spec of the family may name.
TARGETS = ("sm_90a",)
CONFIG = Object(
    {
        **fields(("a", "b"), _OPERAND),
        "d": _RESULT,
        "scales": Enum(SCALES),
        "tile": TILE,
        "swap_ab": Boolean(),
        "layout": _LAYOUT,
        "promotion": Enum(("after", "in_turn", "overlapped", "halves")),
    },
    others=Anything(),
)
# `splits`: whether sums fit into the stages: to be added up along k, or to a 16-bit C.
FACTS = Object(PRODUCT_FACTS | {"stages": Integer(1, 32), "splits": Boolean()}, others=Anything())
