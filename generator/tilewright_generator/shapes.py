"""Tile and cluster shapes: `128x256x64` in specs, names and messages; tuples in Python; lists in JSON."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import PydanticCustomError, core_schema

from tilewright_generator.words import quoted

_EXTENT = "[1-9][0-9]{0,5}"  # no leading zeros, so that a shape has one spelling and one name
_TILE = f"{_EXTENT}x{_EXTENT}x{_EXTENT}"
_CLUSTER = f"{_EXTENT}x{_EXTENT}"


def round_up(value: int, multiple: int) -> int:
    """The least multiple that is not less than `value`."""
    return -(-value // multiple) * multiple


class Tile(NamedTuple):
    """A tile of the output and the depth of one mainloop stage, in elements: MxNxK."""

    m: int
    n: int
    k: int

    def __str__(self) -> str:
        return f"{self[0]}x{self[1]}x{self[2]}"

    @classmethod
    def parse(cls, value: object) -> Tile:
        """Read `"128x256x64"`; a pydantic error says what is wanted instead."""
        if isinstance(value, cls):
            return value
        if isinstance(value, str) and re.fullmatch(_TILE, value):
            m, n, k = value.split("x")
            return cls(int(m), int(n), int(k))
        raise _refusal(value, "tile", "MxNxK", "128x256x64")

    @classmethod
    def __get_pydantic_core_schema__(cls, _: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        return _schema(cls.parse)

    @classmethod
    def __get_pydantic_json_schema__(cls, _: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"type": "string", "pattern": f"^{_TILE}$", "examples": ["128x256x64"]}


class Cluster(NamedTuple):
    """Thread blocks that share their loads, along M and N of the output: MxN."""

    m: int
    n: int

    def __str__(self) -> str:
        return f"{self[0]}x{self[1]}"

    @classmethod
    def parse(cls, value: object) -> Cluster:
        """Read `"2x1"`; a pydantic error says what is wanted instead."""
        if isinstance(value, cls):
            return value
        if isinstance(value, str) and re.fullmatch(_CLUSTER, value):
            m, n = value.split("x")
            return cls(int(m), int(n))
        raise _refusal(value, "cluster", "MxN", "2x1")

    @classmethod
    def __get_pydantic_core_schema__(cls, _: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        return _schema(cls.parse)

    @classmethod
    def __get_pydantic_json_schema__(cls, _: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"type": "string", "pattern": f"^{_CLUSTER}$", "examples": ["1x1", "2x1"]}


def _refusal(value: object, kind: str, letters: str, example: str) -> PydanticCustomError:
    return PydanticCustomError(
        "shape",
        "{given} is not a {kind}; write {letters} in positive whole numbers, for example {example}",
        {
            "given": quoted(value) if isinstance(value, str) else repr(value),
            "kind": kind,
            "letters": letters,
            "example": example,
        },
    )


def _schema(parse: Callable[[object], object]) -> core_schema.CoreSchema:
    return core_schema.no_info_plain_validator_function(
        parse, serialization=core_schema.to_string_ser_schema()
    )
