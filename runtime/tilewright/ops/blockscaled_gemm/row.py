"""What rows of `blockscaled_gemm` tables say of kernels, as far as this runtime asks."""

from __future__ import annotations

from typing import Literal, get_args

from tilewright.ops.blockscaled_gemm.problem import BLOCK, OUTPUTS
from tilewright.ops.common.row import ALIGNMENT, CLUSTER, SCHEDULER, SHARED_BYTES, TILE, C
from tilewright.schema import Anything, Array, Boolean, Enum, Integer, Object, Union, fields

Target = Literal[
    "sm_90a", "sm_100a", "sm_100f", "sm_103a", "sm_110a", "sm_110f", "sm_120a", "sm_120f", "sm_121a"
]
TARGETS = get_args(Target)  # that a spec of the family may name
Schedule = Literal["1sm", "2sm", "cooperative", "pingpong"]
Store = Literal["tma", "direct", "direct_256"]
Prefetch = Literal["tma", "none"]
CONFIG = Object(
    {
        **fields("ab", Enum(tuple(BLOCK))),
        "d": Enum(OUTPUTS),
        "c": C,
        "tile": TILE,
        "cluster": Union((Enum(("dynamic",)), CLUSTER)),
        "schedule": Enum(get_args(Schedule)),
        "scheduler": SCHEDULER,
        "store": Enum(get_args(Store)),
        "prefetch": Enum(get_args(Prefetch)),
        "swap_ab": Boolean(),
    },
    others=Anything(),
)
FACTS = Object(
    {
        "smem_bytes": SHARED_BYTES,
        "block": Integer(1, 128),  # elements along k that share a scale factor
        "alignment": Object(fields("abcd", ALIGNMENT)),
    },
    optional={"cluster_multiple": Array(Integer(1, 2), 2)},
    others=Anything(),
)
