"""What rows of `blockscaled_gemm` tables say of kernels, as far as this runtime asks."""

from __future__ import annotations

from typing import Literal, get_args

from tilewright.base.schema import Anything, Enum, Integer, Object, fields
from tilewright.declarations.row_schemas import ANY_TARGET, CUTLASS_CONFIG, PRODUCT_FACTS, PRODUCT_MAY
from tilewright.families.blockscaled_gemm.problem import BLOCK, OUTPUTS

TARGETS = ANY_TARGET  # that a spec of the family may name
ULTRA_K = 768  # the tile depth that goes with FP4 instructions of K 96
ULTRA_MMA_K = 96
Schedule = Literal["1sm", "2sm", "cooperative", "pingpong"]
Store = Literal["tma", "direct", "direct_256"]
Prefetch = Literal["tma", "none"]
CONFIG = Object(
    {
        **CUTLASS_CONFIG,
        **fields("ab", Enum(tuple(BLOCK))),
        "d": Enum(OUTPUTS),
        "schedule": Enum(get_args(Schedule)),
        "store": Enum(get_args(Store)),
        "prefetch": Enum(get_args(Prefetch)),
    },
    others=Anything(),
)
# `block`: elements along k that share a scale factor.
FACTS = Object(PRODUCT_FACTS | {"block": Integer(1, 128)}, optional=PRODUCT_MAY, others=Anything())
