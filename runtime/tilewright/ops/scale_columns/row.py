"""What rows of `scale_columns` tables say of kernels, as far as this runtime asks.

And what tuned files say of a kind of problem.
"""

from __future__ import annotations

from tilewright.ops.common.row import ANY_TARGET
from tilewright.ops.scale_columns.problem import LAYOUTS
from tilewright.schema import Anything, Enum, Integer, Object

TARGETS = ANY_TARGET  # that a spec of the family may name
CONFIG = Object({}, others=Anything())
FACTS = Object({"threads": Integer(32, 1024)}, others=Anything())
KIND = Object(optional={"layout": Enum(LAYOUTS)})
