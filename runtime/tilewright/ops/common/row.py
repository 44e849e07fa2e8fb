"""What rows of families' tables have in common, for their schemas."""

from __future__ import annotations

from tilewright.schema import Array, Enum, Integer

# Of a family whose kernels need nothing that one architecture alone has.
ANY_TARGET = ("sm_90a", "sm_100a", "sm_100f", "sm_103a", "sm_110f", "sm_120a", "sm_120f", "sm_121a")
MOST_SHARED_BYTES = 227 * 1024  # of a thread block, on any GPU of sm_90 and later
TILE = Array(Integer(1, 65536), 3)
CLUSTER = Array(Integer(1, 16), 2)
SCHEDULER = Enum(("data_parallel", "stream_k"))
C = Enum(("none", "same"))
SHARED_BYTES = Integer(0, MOST_SHARED_BYTES)
ALIGNMENT = Integer(1, 4096)  # elements or bytes that something is a multiple of
