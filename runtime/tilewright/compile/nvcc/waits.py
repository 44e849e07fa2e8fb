"""What CUTLASS's kernels may do that our own may not.

Our own kernels access no global memory before it: every warp waits. Those whose callers promise that an
operand is constant load it before; a row says so (`early_loads`). In CUTLASS's kernels only the warps that
load operands, or that schedule, wait; the others follow them by barriers, which machine code does not show.
So for a unit with CUTLASS's headers the copies of operands are checked, and other accesses are exceptions,
with the reason of the architecture's mainloops.

CUTLASS's mainloop for sm_120 gives stages back while loads are under way: an exception, too, which a report
shows. We cannot mend it. A family says the same of its mainloops for other architectures (`releases` of a
row).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from tilewright.architectures import table
from tilewright.architectures.routing import Target
from tilewright.compile.nvcc.sass_hazards import EARLY_ACCESS, EARLY_RELEASE

_BULK_LOAD = "UTMALDG"
_COPIES = re.compile(r"(?:UTMALDG|UBLKCP|LDGSTS)(?:\.|$)")

_FOLLOWS_COPIES = (
    "the warps of CUTLASS's {} mainloops that multiply and store wait, at mbarriers, for copies of the "
    "loading warp, which waits for the previous kernel; they read alpha and beta in each tile, not before "
    "the first, since the batch stride of alpha and beta is 1"
)
# By what CUTLASS calls the architecture of a kernel's mainloops.
_REASONS = {
    "Sm90": _FOLLOWS_COPIES.format("sm_90"),
    "Sm100": "the warps of CUTLASS's sm_100 epilogues wait for the answer of cluster launch control, which "
    "the scheduling warp requests after it has waited for the previous kernel",
    "Sm120": _FOLLOWS_COPIES.format("sm_120"),
}
_RELEASES = {
    "Sm120": "CUTLASS's sm_120 mainloop loads the last block of a stage, lets all warps that multiply meet "
    "at a named barrier (Sm120MainloopBarrier), and gives the stage back behind it, without waiting for the "
    "loads' scoreboards"
}


def exception(
    hazard: Mapping[str, Any], arch: str, cutlass: bool, releases: str = "", early_loads: str = ""
) -> str:
    """Why a hazard of a kernel for `arch` ("sm_90a") is none; "" if it is one. As its family knows,
    `releases` says why it may give stages back early, and `early_loads` why bulk copies may load operands
    before it waits."""
    if not cutlass:
        loads = hazard["kind"] == EARLY_ACCESS and hazard["opcode"].startswith(_BULK_LOAD)
        return early_loads if loads else ""
    architecture = table.of_capability(Target.parse(arch).capability)
    tag = "" if architecture is None else architecture.cutlass.tag
    if hazard["kind"] == EARLY_RELEASE:
        return releases or _RELEASES.get(tag, "")
    return "" if _COPIES.match(hazard["opcode"]) else _REASONS.get(tag, "")
