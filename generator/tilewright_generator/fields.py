"""The fields of a family's configuration: what each means, which values it takes, how one is written.

Values are validated one at a time, as they stand in the spec, so that each fault has its own line and
column; the products of valid values need no validation of their own.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from functools import cache
from typing import Any, get_args, get_type_hints

from tilewright.base.spelling import did_you_mean, quoted, text
from tilewright.configurations import value_kinds
from tilewright.configurations.family import Family
from tilewright_generator.scalars import Trap, resolve

_TIMES = re.compile(r"\s*[xX*\u00d7]\s*")  # between the numbers of a shape: x, *, a multiplication sign


class InvalidValueError(ValueError):
    """A value that a field does not take; the message says what it does take.

    It is worked out when it is printed, because a suggestion takes time.
    """

    def __init__(self, complaint: Callable[[], str]) -> None:
        super().__init__(complaint)
        self._complaint = complaint

    def __str__(self) -> str:
        return self._complaint()


@dataclasses.dataclass(frozen=True, slots=True)
class Field:
    """One field of a family's configuration."""

    name: str
    description: str
    required: bool
    default: Any
    exceptions: str
    """Where a spec has another default: "1x1 with mainloop: cutlass"; or ""."""
    kinds: tuple[value_kinds.ValueKind, ...]

    @property
    def shape(self) -> bool:
        """Whether all its values are shapes, such as 128x256x64."""
        return all(isinstance(kind, value_kinds.Shape) for kind in self.kinds)

    def parse(self, scalar: object) -> Any:
        """The value that a scalar of YAML stands for. Raises `InvalidValueError`."""
        for kind in self.kinds:
            if (value := kind.read(scalar)) is not value_kinds.NO:
                return value
        raise InvalidValueError(lambda: self._complaint(scalar))

    def parse_text(self, text: str) -> Any:
        """The value of a word on the command line, which has no quotes. Raises `InvalidValueError`."""
        value = resolve(text)
        return self.parse(text if isinstance(value, Trap) or self.takes(text) else value)

    def takes(self, scalar: object) -> bool:
        """Whether a scalar of YAML stands for one of its values."""
        return any(kind.read(scalar) is not value_kinds.NO for kind in self.kinds)

    @property
    def default_text(self) -> str:
        """The default in a few words; "" for a field that must be given."""
        if self.required:
            return ""
        return "; ".join(filter(None, (text(self.default) or repr(""), self.exceptions)))

    @property
    def values(self) -> str:
        """Its legal values in a few words: `true|false`, `auto|2..8`, `e.g. 128x256x64`."""
        return "|".join(_in_words(kind.json_schema()) for kind in self.kinds)

    def json_schema(self) -> dict[str, Any]:
        """The JSON Schema of one value."""
        members = [kind.json_schema() for kind in self.kinds]
        return {"anyOf": members} if len(members) > 1 else members[0]

    def _complaint(self, scalar: object) -> str:
        """The message about a scalar that is none of its values, in one sentence."""
        if slip := self._slip(scalar):
            return f"{self.name}: {show(scalar)} {slip}"
        shapes = [kind.expected(scalar) for kind in self.kinds if isinstance(kind, value_kinds.Shape)]
        if shapes:
            return f"{self.name}: {shapes[0]}"
        choices = [word for kind in self.kinds for word in kind.words()]
        complaints = [complaint for kind in self.kinds if (complaint := kind.expected(scalar))]
        if choices:
            complaints.insert(0, f"one of {', '.join(choices)}" if len(choices) > 1 else choices[0])
        hint = did_you_mean(str(scalar), choices) if len(choices) > 1 else ""
        return f"{self.name}: {show(scalar)} should be {' or '.join(complaints)}{hint}"

    def _slip(self, scalar: object) -> str:
        """The message about the spelling of a scalar, if only the spelling is wrong."""
        if not isinstance(scalar, str):
            alike = None if scalar is None else text(scalar)
            return f'is not text: quote it, "{alike}"' if alike is not None and self.takes(alike) else ""
        value = resolve(scalar)
        if not isinstance(value, str | Trap) and self.takes(value):
            return f"is text: write {scalar} without quotes"
        alike = _TIMES.sub("x", scalar.strip())
        return f"is misspelt; did you mean {alike!r}?" if alike != scalar and self.takes(alike) else ""


@cache
def fields_of(family: Family) -> dict[str, Field]:
    """The fields of the family's configurations by name, in the order in which they are declared."""
    hints = get_type_hints(family.config, include_extras=True)
    defaults = family.defaults({})
    return {
        field.name: _field(
            field,
            hints[field.name],
            defaults.get(field.name, dataclasses.MISSING),
            _exceptions(family, field.name),
        )
        for field in dataclasses.fields(family.config)
    }


def _exceptions(family: Family, name: str) -> str:
    if family.settling is None:
        return ""
    settler, usual, settled = family.settling
    exceptions: dict[str, list[str]] = {}
    for value in settled:
        default = family.defaults({settler: value}).get(name)
        if name != settler and default != family.defaults({settler: usual}).get(name):
            exceptions.setdefault(text(default), []).append(text(value))
    return "; ".join(f"{default} with {settler}: {', '.join(by)}" for default, by in exceptions.items())


def _field(field: dataclasses.Field[Any], annotation: Any, default: Any, exceptions: str) -> Field:
    notes = (extra for extra in get_args(annotation)[1:] if isinstance(extra, str))
    return Field(
        name=field.name,
        description=next(notes, ""),  # of `Annotated[bool, "what it means"]`
        required=default is dataclasses.MISSING,
        default=default,
        exceptions=exceptions,
        kinds=value_kinds.of(annotation),
    )


def show(scalar: object) -> str:
    """A scalar of YAML as a message quotes it."""
    if scalar is None:
        return "null"
    return quoted(scalar) if isinstance(scalar, str) else text(scalar)


def _in_words(schema: dict[str, Any]) -> str:
    if "const" in schema:
        return str(schema["const"])
    if "enum" in schema:
        return "|".join(map(str, schema["enum"]))
    if "examples" in schema:
        return f"e.g. {schema['examples'][-1]}"
    if schema["type"] == "boolean":
        return "true|false"
    if schema["type"] == "integer":
        steps = f", multiples of {schema['multipleOf']}" if "multipleOf" in schema else ""
        return f"{schema.get('minimum', '')}..{schema.get('maximum', '')}{steps}"
    return str(schema["type"]).replace("string", "text")
