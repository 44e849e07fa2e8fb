"""What a cost model answers."""

from __future__ import annotations

from typing import NamedTuple


class Estimate(NamedTuple):
    """Seconds of one launch, and what they are made of."""

    seconds: float
    waves: int  # tiles (or parts of tiles) that the busiest SM works through
    bound: str  # what the main loop waits for most: math, fill, hbm or power
    main_loop: float
    overhead: float


# Shared memory (CUDA programming guide, "Compute Capabilities"; sm_90 and sm_100).
SM_SHARED_BYTES = 228 * 1024
BLOCK_SHARED_BYTES = 1024  # of it, that the system takes of each thread block's


def held_by_memory(shared_bytes: int) -> int:
    """Thread blocks with so much shared memory that an SM has room for."""
    return SM_SHARED_BYTES // (shared_bytes + BLOCK_SHARED_BYTES)
