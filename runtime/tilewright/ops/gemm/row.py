"""What rows of `gemm` tables say of kernels, as far as this runtime asks."""

from __future__ import annotations

from tilewright.ops.common.row import ALIGNMENT, CLUSTER, SCHEDULER, SHARED_BYTES, TILE, C
from tilewright.ops.gemm.problem import ACTIVATIONS, GIVEN, OUTPUTS
from tilewright.schema import Anything, Array, Boolean, Enum, Integer, Object, Union, fields

_TYPE = Enum(tuple(sorted({name for types, d in OUTPUTS.items() for name in (*types, *d)})))
_LAYOUT = Enum(("tn", "tt", "nn", "nt"))

# That a spec of the family may name.
TARGETS = ("sm_90a",)
CONFIG = Object(
    {
        **fields(("a", "b", "d"), _TYPE),
        "c": C,
        "layout": _LAYOUT,
        "tile": TILE,
        "cluster": Union((Enum(("dynamic",)), CLUSTER)),
        "schedule": Enum(("cooperative", "pingpong")),
        "scheduler": SCHEDULER,
        "activation": Enum((*ACTIVATIONS, GIVEN)),
        **fields(("fast_accum", "swap_ab", "bias"), Boolean()),
    },
    optional={"mainloop": Enum(("cutlass", "lean", "stream"))},
    others=Anything(),
)
FACTS = Object(
    {"smem_bytes": SHARED_BYTES, "alignment": Object(fields("abcd", ALIGNMENT))},
    optional={
        "stages": Integer(1, 32),
        "splits": Boolean(),  # whether a lean kernel splits k
        "pieces": Integer(1, 4096),  # of a warpgroup's tile, which the parts of a split k share out
        "cluster_multiple": Array(Integer(1, 2), 2),
    },
    others=Anything(),
)
