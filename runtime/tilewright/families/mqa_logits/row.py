"""What rows of `mqa_logits` tables say of kernels."""

from tilewright.base.schema import Anything, Integer, Object
from tilewright.declarations.row_schemas import SHARED_BYTES, config
from tilewright.families.mqa_logits.problem import FORMS, LOGITS, TYPES

TARGETS = ("sm_90a", "sm_100f", "sm_120f")  # that a spec of the family may name
CONFIG = config(
    form=FORMS, q=TYPES, d=LOGITS, mma=("wgmma", "tcgen05", "mma_sync", "block_scaled"),
    heads=64, head_dim=128, queries=16, pieces=4, warpgroups=4,
)  # fmt: skip
FACTS = Object({"smem_bytes": SHARED_BYTES, "threads": Integer(32, 1024)}, others=Anything())
