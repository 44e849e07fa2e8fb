"""What rows of `scale_columns` tables say of kernels, as far as this runtime asks.

And what tuned files say of a kind of problem.
"""

from __future__ import annotations

from tilewright.ops.scale_columns.problem import LAYOUTS
from tilewright.schema import Anything, Enum, Integer, Object

# That a spec of the family may name.
TARGETS = (
    "sm_90a",
    "sm_100a",
    "sm_100f",
    "sm_103a",
    "sm_110f",
    "sm_120a",
    "sm_120f",
    "sm_121a",
)
CONFIG = Object({}, others=Anything())
FACTS = Object({"threads": Integer(32, 1024)}, others=Anything())
KIND = Object(optional={"layout": Enum(LAYOUTS)})
