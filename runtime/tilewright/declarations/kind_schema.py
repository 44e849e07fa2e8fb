"""The schema of kinds of problems in tuned files."""

from __future__ import annotations

import dataclasses
from typing import Any

from tilewright.base.schema import Boolean, Enum, Object
from tilewright.declarations.vocabulary import Flag, Words


def kind_schema(words: Words[Any]) -> Object:
    """The schema of a kind of problem: the fields that the vocabulary sets, each with all values that a word
    can give it and its default."""
    defaults = {field.name: field.default for field in dataclasses.fields(words.problem)}
    settings = [dict(fields) for fields in words.types.fields.values() if not isinstance(fields, str)]
    values = {name: {defaults[name], *(setting[name] for setting in settings)} for name in settings[0]}
    flags = [word.field for word in words.others if isinstance(word, Flag)]
    for word in words.others:
        field = word.name if word.field is None else word.field or word.name
        if isinstance(word, Flag):
            settings = [setting | {field: word.default} for setting in settings]
            continue
        choices = [(setting, word.possible(setting)) for setting in settings]
        if word.field is not None:
            values[field] = {defaults[field]}.union(*(possible for _, possible in choices))
        # Later words depend only on words that depend on the types, and on defaults.
        settings = [
            setting | {field: value}
            for setting, possible in choices
            for value in (possible if callable(word.values) else possible[:1])
        ]
    enums = {name: Enum(tuple(sorted(map(str, possible)))) for name, possible in values.items()}
    return Object(optional={**enums, **dict.fromkeys(flags, Boolean())})
