"""What rows of `transpose_fp8` tables say of kernels, as far as this runtime asks."""

from __future__ import annotations

from tilewright.ops.common.row import ANY_TARGET
from tilewright.schema import Anything, Integer, Object

TARGETS = ANY_TARGET  # that a spec of the family may name
CONFIG = Object({}, others=Anything())
FACTS = Object({"threads": Integer(32, 1024)}, others=Anything())
