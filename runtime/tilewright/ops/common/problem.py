"""What messages call a problem."""

from __future__ import annotations

from collections import namedtuple
from dataclasses import MISSING, fields
from functools import cache
from typing import Any, ClassVar


class Told:
    """Base of families' problems: `str()` of one, its parts, and its kind."""

    __slots__ = ()
    kind_fields: ClassVar[tuple[str, ...]] = ()
    """What of it decides which kernels compute it, but for extents and alignment."""
    told_beyond_1: ClassVar[tuple[tuple[str, str], ...]] = ()
    """Numbers that messages tell where they are more than 1, and how: " batch {}"."""

    @property
    def kind(self) -> Any:
        """These fields: a named tuple, equal for problems of one kind."""
        return _kinds(self.kind_fields)._make([getattr(self, name) for name in self.kind_fields])

    @property
    def op_text(self) -> str:
        """What is done: the first word of `str()`."""
        raise NotImplementedError

    @property
    def extents_text(self) -> str:
        """`32x5120x25600 batch 3`: those that every problem has, and others of more than 1."""
        own = fields(self)  # type: ignore[arg-type]
        least = "x".join(str(getattr(self, one.name)) for one in own if one.default is MISSING)
        more = ((text, getattr(self, name)) for name, text in self.told_beyond_1)
        return least + "".join(text.format(number) for text, number in more if number > 1)

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


@cache
def _kinds(fields: tuple[str, ...]) -> Any:
    return namedtuple("Kind", [*fields])
