"""What rows of `gemm` tables say of kernels, as far as this runtime asks."""

from __future__ import annotations

from tilewright.base.schema import Anything, Boolean, Enum, Integer, Object, fields
from tilewright.declarations.row_schemas import CUTLASS_CONFIG, PRODUCT_FACTS, PRODUCT_MAY
from tilewright.families.gemm.problem import ACTIVATIONS, GIVEN, OUTPUTS

_TYPE = Enum(tuple(sorted({name for types, d in OUTPUTS.items() for name in (*types, *d)})))

# That a spec of the family may name.
TARGETS = ("sm_90a",)
CONFIG = Object(
    {
        **CUTLASS_CONFIG,
        **fields(("a", "b", "d"), _TYPE),
        "layout": Enum(("tn", "tt", "nn", "nt")),
        "schedule": Enum(("cooperative", "pingpong")),
        "activation": Enum((*ACTIVATIONS, GIVEN)),
        **fields(("fast_accum", "bias"), Boolean()),
    },
    optional={"mainloop": Enum(("cutlass", "lean", "stream"))},
    others=Anything(),
)
FACTS = Object(
    PRODUCT_FACTS,
    optional={
        **PRODUCT_MAY,
        "splits": Boolean(),  # whether a lean kernel splits k
        "pieces": Integer(1, 4096),  # of a warpgroup's tile, which the parts of a split k share out
    },
    others=Anything(),
)
