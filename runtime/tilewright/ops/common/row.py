"""What rows of families' tables have in common, for their schemas; and what tuned files say of problems."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal, get_args

from tilewright.ops.common.words import Flag, Words
from tilewright.schema import Anything, Array, Boolean, Enum, Integer, Object, Schema, Union, fields

# Of a family whose kernels need nothing that one architecture alone has.
AnyTarget = Literal["sm_90a", "sm_100a", "sm_100f", "sm_103a", "sm_110f", "sm_120a", "sm_120f", "sm_121a"]
ANY_TARGET = get_args(AnyTarget)
MOST_SHARED_BYTES = 227 * 1024  # of a thread block, on any GPU of sm_90 and later
TILE = Array(Integer(1, 65536), 3)
SHARED_BYTES = Integer(0, MOST_SHARED_BYTES)
ALIGNMENT = Integer(1, 4096)  # elements or bytes that something is a multiple of
# Of products with CUTLASS's mainloops: fields of a configuration; and facts, those that there may be apart.
CUTLASS_CONFIG: dict[str, Schema] = {
    "c": Enum(("none", "same")),
    "tile": TILE,
    "cluster": Union((Array(Integer(1, 16), 2), Enum(("dynamic",)))),
    "scheduler": Enum(("data_parallel", "stream_k")),
    "swap_ab": Boolean(),
}
PRODUCT_FACTS: dict[str, Schema] = {
    "smem_bytes": SHARED_BYTES,
    "alignment": Object(fields("abcd", ALIGNMENT)),
}
PRODUCT_MAY: dict[str, Schema] = {"stages": Integer(1, 32), "cluster_multiple": Array(Integer(1, 2), 2)}


def config(**said: int | tuple[str, ...]) -> Object:
    """A kernel's configuration, as far as this runtime asks: words, and numbers from 1 to the most."""
    values = {name: Integer(1, one) if isinstance(one, int) else Enum(one) for name, one in said.items()}
    return Object(values, others=Anything())


def kind(words: Words[Any]) -> Object:
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
