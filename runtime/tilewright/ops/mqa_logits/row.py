"""What rows of `mqa_logits` tables say of kernels, as far as this runtime asks.

And what tuned files say of a kind of problem.
"""

from __future__ import annotations

from tilewright.ops.common.row import SHARED_BYTES
from tilewright.ops.mqa_logits.problem import FORMS, LOGITS, TYPES
from tilewright.schema import Anything, Boolean, Enum, Integer, Object

# That a spec of the family may name.
TARGETS = ("sm_90a", "sm_100f", "sm_120f")
CONFIG = Object(
    {
        "form": Enum(FORMS),
        "heads": Integer(8, 64),
        "head_dim": Integer(32, 128),
        "q": Enum(TYPES),
        "d": Enum(LOGITS),
        "mma": Enum(("wgmma", "mma_sync", "block_scaled")),
        "queries": Integer(1, 16),
        "pieces": Integer(1, 4),
        "warpgroups": Integer(1, 4),
    },
    others=Anything(),
)
FACTS = Object({"smem_bytes": SHARED_BYTES, "threads": Integer(32, 1024)}, others=Anything())
KIND = Object(
    optional={
        "form": Enum(FORMS),
        "q": Enum(TYPES),
        "d": Enum(LOGITS),
        "clean": Boolean(),
    }
)
