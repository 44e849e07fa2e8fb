"""What rows of `mqa_logits` tables, and tuned files, say of kernels and kinds of problems."""

from __future__ import annotations

from tilewright.ops.common.row import SHARED_BYTES
from tilewright.ops.mqa_logits.problem import FORMS, LOGITS, TYPES
from tilewright.schema import Anything, Boolean, Enum, Integer, Object

TARGETS = ("sm_90a", "sm_100f", "sm_120f")  # that a spec of the family may name
_KIND = {"form": Enum(FORMS), "q": Enum(TYPES), "d": Enum(LOGITS)}
_NUMBERS = {"heads": 64, "head_dim": 128, "queries": 16, "pieces": 4, "warpgroups": 4}
CONFIG = Object(
    _KIND
    | {"mma": Enum(("wgmma", "mma_sync", "block_scaled"))}
    | {name: Integer(1, most) for name, most in _NUMBERS.items()},
    others=Anything(),
)
FACTS = Object({"smem_bytes": SHARED_BYTES, "threads": Integer(32, 1024)}, others=Anything())
KIND = Object(optional=_KIND | {"clean": Boolean()})
