"""What rows of `reduced_gemm` tables say of kernels, as far as this runtime asks."""

from __future__ import annotations

from tilewright.base.schema import Anything, Enum, Integer, Object
from tilewright.declarations.row_schemas import SHARED_BYTES, TILE
from tilewright.families.reduced_gemm.problem import OUTPUTS

_TYPE = Enum(tuple(sorted({name for types, d in OUTPUTS.items() for name in (*types, *d)})))

# That a spec of the family may name.
TARGETS = ("sm_90a",)
CONFIG = Object({"a": _TYPE, "tile": TILE}, others=Anything())
FACTS = Object({"smem_bytes": SHARED_BYTES, "stages": Integer(2, 32)}, others=Anything())
