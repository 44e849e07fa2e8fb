"""What rows of `scale_columns` tables say of kernels, as far as this runtime asks."""

from __future__ import annotations

from tilewright.base.schema import Anything, Integer, Object
from tilewright.declarations.row_schemas import ANY_TARGET

TARGETS = ANY_TARGET  # that a spec of the family may name
CONFIG = Object({}, others=Anything())
FACTS = Object({"threads": Integer(32, 1024)}, others=Anything())
