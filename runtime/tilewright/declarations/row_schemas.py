"""The common parts of the schemas of families' table rows."""

from __future__ import annotations

from tilewright.architectures import table
from tilewright.base.schema import Anything, Array, Boolean, Enum, Integer, Object, Schema, Union, fields

# The targets of a family whose kernels use nothing that only one architecture has.
ANY_TARGET = table.targets()
# The most shared memory of a thread block on any GPU, in bytes.
MOST_SHARED_BYTES = max(architecture.shared_memory.block for architecture in table.ARCHITECTURES)
TILE = Array(Integer(1, 65536), 3)
SHARED_BYTES = Integer(0, MOST_SHARED_BYTES)
ALIGNMENT = Integer(1, 4096)  # elements or bytes
# Fields of the configurations of products with CUTLASS's mainloops.
CUTLASS_CONFIG: dict[str, Schema] = {
    "c": Enum(("none", "same")),
    "tile": TILE,
    "cluster": Union((Array(Integer(1, 16), 2), Enum(("dynamic",)))),
    "scheduler": Enum(("data_parallel", "stream_k")),
    "swap_ab": Boolean(),
}
# Facts that all their kernels have.
PRODUCT_FACTS: dict[str, Schema] = {
    "smem_bytes": SHARED_BYTES,
    "alignment": Object(fields("abcd", ALIGNMENT)),
}
# Facts that some of their kernels have.
PRODUCT_MAY: dict[str, Schema] = {"stages": Integer(1, 32), "cluster_multiple": Array(Integer(1, 2), 2)}


def config(**fields: int | tuple[str, ...]) -> Object:
    """The schema of a kernel's configuration, as far as this runtime reads it: the legal words of a field, or
    the largest value of a number that begins at 1."""
    values = {
        name: Integer(1, legal) if isinstance(legal, int) else Enum(legal) for name, legal in fields.items()
    }
    return Object(values, others=Anything())
