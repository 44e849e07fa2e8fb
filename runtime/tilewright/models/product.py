"""A product of a forward pass: a problem, and the values of the extent of it that varies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tilewright.declarations import catalog


@dataclass(frozen=True)
class Product:
    """One launch of an op in a forward pass, for all values of one extent."""

    layer: str  # its name in the model: "qkv_proj"
    op: str  # the public op: "tilewright.scaled_gemm"
    family: str
    example: Any  # a problem of the family, with any value of the extent
    values: range  # of the extent that varies
    extent: str = "m"
    count: int = 1  # launches in a forward pass

    @classmethod
    def of_words(
        cls, layer: str, op: str, family: str, words: Mapping[str, Any], values: range,
        *, extent: str = "m", count: int = 1,
    ) -> Product:  # fmt: skip
        """A product of the words of a problem (`tilewright explain --problem`) without the extent that
        varies. Raises ArgumentError if the family has no such problem."""
        example = catalog.words_of(family).make({}, {**words, extent: values[-1]})
        return cls(layer, op, family, example, values, extent, count)

    def problem(self, value: int) -> Any:
        """The problem for a value of the extent."""
        return replace(self.example, **{self.extent: value})


@dataclass(frozen=True)
class LeftOut:
    """A product that tilewright does not compute: the caller keeps what computes it now."""

    layer: str
    what: str  # types and extents
    reason: str
    count: int


@dataclass
class Listing:
    """The products of a forward pass, in its order, and those that are left out."""

    title: str
    products: list[Product] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
