"""What rows of `hc_prenorm` tables say of kernels, as far as this runtime asks."""

from __future__ import annotations

from tilewright.base.schema import Anything, Enum, Integer, Object
from tilewright.declarations.row_schemas import ANY_TARGET, SHARED_BYTES, TILE

TARGETS = ANY_TARGET  # that a spec of the family may name
CONFIG = Object(
    {"tile": TILE, "mma": Enum(("wgmma", "sync")), "warp_rows": Integer(16, 64)}, others=Anything()
)
FACTS = Object({"stages": Integer(1, 32), "smem_bytes": SHARED_BYTES}, others=Anything())
