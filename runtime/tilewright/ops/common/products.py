"""What families of matrix products have in common."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.ops.common.problem import Told
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


@dataclass(frozen=True, slots=True)
class Product(Told):
    """A[m,k] B[k,n], of each of a batch."""

    m: int
    n: int
    k: int
    batch: int = 1

    @property
    def flops(self) -> int:
        return 2 * self.m * self.n * self.k * self.batch

    @property
    def extents_text(self) -> str:
        return product_extents(self.m, self.n, self.k, self.batch)
