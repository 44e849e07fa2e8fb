"""The schema of rows of a family's tables, derived from its configuration and its facts.

`CONFIG` and `FACTS` stand in the family's module `config`, or in `kernel` where it has no such module: the
dataclass of a kernel, and a TypedDict of the numbers that `facts` derives from it. Bounds are annotations:
`threads: Annotated[int, Bounds(32, 1024)]`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, get_args, get_origin, get_type_hints, is_typeddict

from tilewright.base.schema import Anything, Array, Object, Schema, String
from tilewright.configurations import value_kinds

LEFT_OUT: Mapping[str, bool] = MappingProxyType({"left_out": True})
"""Metadata of a field that rows leave out while it has its default: a field that is younger than the family's
tables, whose rows stay as they are."""


def written(config: Any) -> dict[str, Any]:
    """The fields of a configuration that its row holds."""
    return {
        field.name: value
        for field in dataclasses.fields(config)
        if (value := getattr(config, field.name)) != field.default or not field.metadata.get("left_out")
    }


def config_schema(config: type) -> Object:
    """The schema of a configuration: every field.

    A row that an older version wrote may lack fields with a default. A row of a newer version may have a
    target that this family does not know: `arch` is any text, and kernels of unknown targets never run.
    """
    values = _schemas(_hints(config)) | {"arch": String()}
    optional = {name: values.pop(name) for name in defaults(config)}
    return Object(values, optional, others=Anything())


def facts_schema(facts: Any) -> Object:
    """The schema of facts: the keys of the TypedDict, and any others."""
    return _object(facts, others=Anything())


def defaults(config: type) -> dict[str, Any]:
    """The fields that a row may lack, with what they then hold, as JSON has it."""
    values = {field.name: field.default for field in dataclasses.fields(config)}
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in values.items()
        if value is not dataclasses.MISSING
    }


def targets(config: type) -> tuple[str, ...]:
    """The targets that a spec of the family may name: the values of the field `arch`."""
    return tuple(word for kind in value_kinds.of(_hints(config)["arch"]) for word in kind.words())


def _hints(of: type) -> dict[str, Any]:
    return get_type_hints(of, include_extras=True)


def _schemas(annotations: dict[str, Any]) -> dict[str, Schema]:
    objects = {name: type for name, type in annotations.items() if is_typeddict(type)}
    arrays = {name: get_args(type) for name, type in annotations.items() if get_origin(type) is tuple}
    plain = {name: type for name, type in annotations.items() if name not in objects and name not in arrays}
    schemas: dict[str, Schema] = {name: value_kinds.schema_of(type) for name, type in plain.items()}
    schemas |= {name: _object(type) for name, type in objects.items()}
    schemas |= {name: Array(value_kinds.schema_of(items[0]), len(items)) for name, items in arrays.items()}
    return {name: schemas[name] for name in annotations}


def _object(typed: Any, others: Schema | None = None) -> Object:
    values = _schemas(_hints(typed))
    optional = {name: values.pop(name) for name in sorted(typed.__optional_keys__)}
    return Object(values, optional, others=others)
