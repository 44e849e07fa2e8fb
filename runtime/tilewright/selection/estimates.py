"""The answer of a cost model."""

from typing import NamedTuple

from tilewright.architectures import table


class Estimate(NamedTuple):
    """The estimated seconds of one launch, and their parts."""

    seconds: float
    waves: int  # tiles (or k ranges of tiles) that the busiest SM computes, one after another
    bound: str  # what limits the main loop most: math, fill, hbm or power
    main_loop: float  # seconds
    overhead: float  # seconds of launching, first loads and the epilogue, in which no main loop runs

    @property
    def limit(self) -> str:
        """What limits the launch most: `bound`, or overhead if that takes longer than the main loop."""
        return "overhead" if self.overhead > self.main_loop else self.bound


# Bytes of shared memory of an SM of sm_90, and of the most that one thread block may have.
SM_SHARED_BYTES, _MOST_SHARED_BYTES = table.of_target("sm_90a").shared_memory[::-1]
# Bytes of shared memory that the system reserves for each thread block.
BLOCK_SHARED_BYTES = SM_SHARED_BYTES - _MOST_SHARED_BYTES


def held_by_memory(shared_bytes: int) -> int:
    """The number of thread blocks with `shared_bytes` of shared memory each that fit on an SM."""
    return SM_SHARED_BYTES // (shared_bytes + BLOCK_SHARED_BYTES)
