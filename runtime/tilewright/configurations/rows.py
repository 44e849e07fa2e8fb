"""What rows of a family's tables hold, as its configuration and its facts say it.

`CONFIG` and `FACTS` stand in the family's module `config`, or in `kernel` where it has no such module: the
dataclass of a kernel, and a TypedDict of the numbers that `facts` derives from it. Bounds are annotations:
`threads: Annotated[int, Bounds(32, 1024)]`.
"""

from __future__ import annotations

import dataclasses
from typing import Any, get_args, get_origin, get_type_hints, is_typeddict

from tilewright.base.schema import Anything, Array, Object, Schema, String, Union
from tilewright.configurations import value_kinds


def config_schema(config: type) -> Object:
    """The schema of a configuration: every field.

    A row that an older version wrote may lack fields with a default. A row of a newer version may have a
    target that this family does not know: `arch` is any text, and kernels of unknown targets never run.
    """
    values = {name: _schema(hint) for name, hint in _hints(config).items()} | {"arch": String()}
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


def _schema(annotation: Any) -> Schema:
    if is_typeddict(annotation):
        return _object(annotation)
    if get_origin(annotation) is tuple:  # of one kind
        items = get_args(annotation)
        return Array(_schema(items[0]), len(items))
    kinds = [kind.schema() for kind in value_kinds.of(annotation)]
    return Union(tuple(kinds)) if len(kinds) > 1 else kinds[0]


def _object(typed: Any, others: Schema | None = None) -> Object:
    values = {name: _schema(hint) for name, hint in _hints(typed).items()}
    optional = {name: values.pop(name) for name in sorted(typed.__optional_keys__)}
    return Object(values, optional, others=others)
