"""What rows of families' tables have in common, for their schemas."""

from __future__ import annotations

from tilewright.architectures import table
from tilewright.base.schema import Anything, Array, Boolean, Enum, Integer, Object, Schema, Union, fields

# Targets of a family whose kernels need nothing that one architecture alone has.
ANY_TARGET = table.targets()
MOST_SHARED_BYTES = max(
    architecture.shared_memory.block for architecture in table.ARCHITECTURES
)  # of a thread block
TILE = Array(Integer(1, 65536), 3)
SHARED_BYTES = Integer(0, MOST_SHARED_BYTES)
ALIGNMENT = Integer(1, 4096)  # elements or bytes that something is a multiple of
# Of products with CUTLASS's mainloops: fields of a configuration; and facts, those that there may be apart.
CUTLASS_CONFIG: dict[str, Schema] = {
    "c": Enum(("none", "same")),
    "tile": TILE,
    "cluster": Union((Array(Integer(1, 16), 2), Enum(("dynamic",)))),
    "scheduler": Enum(("data_parallel", "stream_k")),
    "swap_ab": Boolean(),
}
PRODUCT_FACTS: dict[str, Schema] = {
    "smem_bytes": SHARED_BYTES,
    "alignment": Object(fields("abcd", ALIGNMENT)),
}
PRODUCT_MAY: dict[str, Schema] = {"stages": Integer(1, 32), "cluster_multiple": Array(Integer(1, 2), 2)}


def config(**said: int | tuple[str, ...]) -> Object:
    """A kernel's configuration, as far as this runtime asks: words, and numbers from 1 to the most."""
    values = {name: Integer(1, one) if isinstance(one, int) else Enum(one) for name, one in said.items()}
    return Object(values, others=Anything())
