"""The number of thread blocks of a kernel of sm_90a that fit on an SM."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.selection.estimates import held_by_memory


def resident(tile: Sequence[int], shared_bytes: int) -> int:
    """The thread blocks that fit on an SM by its shared memory and its registers, of which a thread takes
    about 100, or more if N is 128."""
    m, n, _ = tile
    most = max(1, 128 // m) if n == 128 else {64: 4, 128: 2}.get(m, 1)
    return max(1, min(most, held_by_memory(shared_bytes)))
