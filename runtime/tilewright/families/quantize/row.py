"""What rows of `quantize` tables say of kernels, as far as this runtime asks."""

from __future__ import annotations

from typing import Literal, get_args

from tilewright.base.schema import Anything, Enum, Integer, Object, fields
from tilewright.declarations.row_schemas import ALIGNMENT, ANY_TARGET, SHARED_BYTES
from tilewright.families.quantize.problem import DIRECTIONS, FORMATS, FUSIONS, X_TYPES

TARGETS = ANY_TARGET  # that a spec of the family may name
Variant = Literal["vector", "tma"]
Arithmetic = Literal["exact", "fast"]
CONFIG = Object(
    {
        "format": Enum(FORMATS),
        "x": Enum(X_TYPES),
        "direction": Enum(DIRECTIONS),
        "variant": Enum(get_args(Variant)),
        "arithmetic": Enum(get_args(Arithmetic)),
        "fusion": Enum(FUSIONS),
        "threads": Integer(32, 1024),
    },
    others=Anything(),
)
FACTS = Object(
    {
        "smem_bytes": SHARED_BYTES,
        "k_multiple": Integer(1, 4096),
        "alignment": Object(fields(("x", "data"), ALIGNMENT)),
    },
    others=Anything(),
)
