"""What kernels may do before griddepcontrol.wait.

Our own kernels access no global memory before it: every warp waits. In CUTLASS's kernels only the warps that
load operands, or that schedule, wait; the others follow them by barriers, which machine code does not show.
So for a unit with CUTLASS's headers the copies of operands are checked, and other accesses are exceptions,
with the reason of the architecture's mainloops.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tilewright.build.sass_hazards import EARLY_ACCESS

_COPIES = re.compile(r"(?:UTMALDG|UBLKCP|LDGSTS)(?:\.|$)")

_FOLLOWS_COPIES = (
    "the warps of CUTLASS's {} mainloops that multiply and store wait, at mbarriers, for copies of the "
    "loading warp, which waits for the previous kernel; they read alpha and beta in each tile, not before "
    "the first, since the batch stride of alpha and beta is 1"
)
# By architecture (the first digits of a target's number) of the mainloops of CUTLASS's kernels.
_REASONS = {
    9: _FOLLOWS_COPIES.format("sm_90"),
    10: "the warps of CUTLASS's sm_100 epilogues wait for the answer of cluster launch control, which the "
    "scheduling warp requests after it has waited for the previous kernel",
    12: _FOLLOWS_COPIES.format("sm_120"),
}
_REASONS[11] = _REASONS[10]


def exception(hazard: Mapping[str, Any], arch: str, cutlass: bool) -> str:
    """Why a hazard of a kernel for `arch` ("sm_90a") is none; "" if it is one."""
    if hazard["kind"] != EARLY_ACCESS or not cutlass or _COPIES.match(hazard["opcode"]):
        return ""
    return _REASONS.get(int(re.sub(r"\D", "", arch)) // 10, "")
