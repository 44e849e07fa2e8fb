"""Rules that several families have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilewright.architectures.table import of_target
from tilewright.configurations.rule import HARDWARE, Rule, cutlass, rule


def shared_memory(bytes_of: Callable[[Any], int], fields: str) -> Rule:
    """The rule that dynamic shared memory is no more than there is."""

    # CUDA programming guide, "Compute Capabilities": 227 KB a thread block, 99 on sm_12x.
    def shared_memory(config: Any) -> str | None:
        """A thread block's shared memory is at most 227 KB, on sm_12x 99 KB."""
        total, limit = bytes_of(config), of_target(config.arch).shared_memory.block
        reason = f"{total:,} bytes of shared memory, of {limit:,} that {config.arch} has"
        return reason if total > limit else None

    return rule(HARDWARE, fields)(shared_memory)


# sm90_gemm_tma_warpspecialized_pingpong.hpp: "Ping-pong kernel does not currently support stream-K".
@rule(cutlass("4.2"), "scheduler schedule")
def stream_k_schedule(config: Any) -> str | None:
    """Stream-K is not for the ping-pong schedule."""
    if config.scheduler == "stream_k" and config.schedule == "pingpong":
        return "stream_k needs the cooperative schedule, not pingpong"
    return None
