"""What rows of `hc_prenorm` tables say of kernels, as far as this runtime asks.

And what tuned files say of a kind of problem.
"""

from __future__ import annotations

from tilewright.ops.common.row import SHARED_BYTES, TILE
from tilewright.schema import Anything, Boolean, Enum, Integer, Object

# That a spec of the family may name.
TARGETS = ("sm_90a", "sm_100a", "sm_100f", "sm_103a", "sm_110f", "sm_120a", "sm_120f", "sm_121a")
CONFIG = Object(
    {"tile": TILE, "mma": Enum(("wgmma", "sync")), "warp_rows": Integer(16, 64)}, others=Anything()
)
FACTS = Object({"stages": Integer(1, 32), "smem_bytes": SHARED_BYTES}, others=Anything())
KIND = Object(optional={"normalize": Boolean()})
