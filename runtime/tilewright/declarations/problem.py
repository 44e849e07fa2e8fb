"""The base of families' problems: their kind, and their text in messages."""

from __future__ import annotations

from collections import namedtuple
from dataclasses import MISSING, fields
from functools import cache
from typing import Any, ClassVar


class ProblemBase:
    """Base of families' problems, which are frozen dataclasses."""

    __slots__ = ()
    kind_fields: ClassVar[tuple[str, ...]] = ()
    """The fields, beside extents and alignment, that decide which kernels compute the problem."""
    shown_beyond_1: ClassVar[tuple[tuple[str, str], ...]] = ()
    """Extents that messages leave out where they are 1, each with its text: ("batch", " batch {}")."""

    @property
    def kind(self) -> Any:
        """The values of `kind_fields`: a named tuple, equal for problems of one kind."""
        return _kinds(self.kind_fields)._make([getattr(self, name) for name in self.kind_fields])

    @property
    def op_text(self) -> str:
        """The name of the operation: the first word of `str()`."""
        raise NotImplementedError

    @property
    def extents_text(self) -> str:
        """`32x5120x25600 batch 3`: the extents that every problem has, and others if they are more than 1."""
        own = fields(self)  # type: ignore[arg-type]
        least = "x".join(str(getattr(self, field.name)) for field in own if field.default is MISSING)
        more = ((text, getattr(self, name)) for name, text in self.shown_beyond_1)
        return least + "".join(text.format(number) for text, number in more if number > 1)

    @property
    def types_text(self) -> str:
        """The text without operation and extents: `bf16 x bf16 -> bf16, layout tn`."""
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
