"""What families of matrix products have in common."""

from __future__ import annotations

from tilewright.ops.common.words import Extent

BATCH = Extent("batch", "Matrices.", usual=1, default=1)
MATRIX_EXTENTS = (
    Extent("m", "Rows of A and D.", usual=64),
    Extent("n", "Columns of B and D.", usual=4096),
    Extent("k", "Columns of A, rows of B.", usual=4096),
    BATCH,
)


def product_extents(m: int, n: int, k: int, batch: int) -> str:
    """The extents of a matrix product, for messages."""
    return f"{m}x{n}x{k}" + (f" batch {batch}" if batch > 1 else "")
