"""What messages call a problem."""

from __future__ import annotations


class Told:
    """Base of families' problems: `str()` of one, and its parts."""

    __slots__ = ()

    @property
    def op_text(self) -> str:
        """What is done: the first word of `str()`."""
        raise NotImplementedError

    @property
    def extents_text(self) -> str:
        """`32x5120x25600 batch 3`."""
        raise NotImplementedError

    @property
    def types_text(self) -> str:
        """What is computed whatever the extents: `bf16 x bf16 -> bf16, layout tn`."""
        raise NotImplementedError

    @property
    def kind_text(self) -> str:
        """`str()` without the extents."""
        return f"{self.op_text} {self.types_text}"

    def __str__(self) -> str:
        return f"{self.op_text} {self.extents_text} {self.types_text}"
