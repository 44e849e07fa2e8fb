"""How many thread blocks of a kernel of sm_90a an SM holds."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.selection.estimates import held_by_memory


def resident(tile: Sequence[int], shared_bytes: int) -> int:
    """Thread blocks that an SM holds at once: by its memory, and by registers, of which a thread takes about
    100, and more where N is 128."""
    m, n, _ = tile
    most = max(1, 128 // m) if n == 128 else {64: 4, 128: 2}.get(m, 1)
    return max(1, min(most, held_by_memory(shared_bytes)))
