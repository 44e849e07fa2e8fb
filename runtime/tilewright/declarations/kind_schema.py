"""The schema of what tuned files hold of a kind of problem."""

from __future__ import annotations

import dataclasses
from typing import Any

from tilewright.base.schema import Boolean, Enum, Object
from tilewright.declarations.vocabulary import Flag, Words


def kind_schema(words: Words[Any]) -> Object:
    """What tuned files hold of a kind of problem: the fields that its words set, each of the values that some
    of them give it, or of its own default."""
    defaults = {field.name: field.default for field in dataclasses.fields(words.problem)}
    settings = [dict(one) for one in words.types.fields.values() if not isinstance(one, str)]
    values = {name: {defaults[name], *(one[name] for one in settings)} for name in settings[0]}
    flags = [word.field for word in words.others if isinstance(word, Flag)]
    for word in words.others:
        field = word.name if word.field is None else word.field or word.name
        if isinstance(word, Flag):
            settings = [one | {field: word.default} for one in settings]
            continue
        found = [(one, word.possible(one)) for one in settings]
        if word.field is not None:
            values[field] = {defaults[field]}.union(*(possible for _, possible in found))
        # What others depend on are words that depend on the types themselves, and defaults.
        settings = [
            one | {field: value}
            for one, possible in found
            for value in (possible if callable(word.values) else possible[:1])
        ]
    enums = {name: Enum(tuple(sorted(map(str, possible)))) for name, possible in values.items()}
    return Object(optional={**enums, **dict.fromkeys(flags, Boolean())})
