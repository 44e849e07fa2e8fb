"""The fields of a family's configuration: what each means, which values it takes, how one is written.

Values are validated one at a time, as they stand in the spec, so that each fault has its own line and
column; the products of valid values need no validation of their own.
"""

from __future__ import annotations

import dataclasses
import re
from functools import cache
from typing import Any, get_args, get_type_hints

from pydantic import ConfigDict, TypeAdapter, ValidationError

from tilewright.spelling import did_you_mean, text
from tilewright_generator.families.family import Family
from tilewright_generator.scalars import Trap, resolve
from tilewright_generator.words import quoted

_TIMES = re.compile(r"\s*[xX*\u00d7]\s*")  # between the numbers of a shape: x, *, a multiplication sign


class InvalidValueError(ValueError):
    """A value that a field does not take; the message says what it does take."""


@dataclasses.dataclass(frozen=True, slots=True)
class Field:
    """One field of a family's configuration."""

    name: str
    description: str
    required: bool
    default: Any
    adapter: TypeAdapter[Any]
    shape: bool
    """Whether its values are shapes, such as 128x256x64."""

    def parse(self, given: object) -> Any:
        """The value that `given`, a scalar of YAML, stands for; raises `InvalidValueError`."""
        try:
            return self.adapter.validate_python(given, strict=True)
        except ValidationError as error:
            raise InvalidValueError(self._complaint(given, error)) from None

    def parse_text(self, text: str) -> Any:
        """The value of a word of the command line, where nothing is quoted; raises `InvalidValueError`."""
        value = resolve(text)
        return self.parse(text if isinstance(value, Trap) or self.takes(text) else value)

    def takes(self, given: object) -> bool:
        """Whether `given` stands for one of its values."""
        try:
            self.adapter.validate_python(given, strict=True)
        except ValidationError:
            return False
        return True

    @property
    def values(self) -> str:
        """What it takes, in a few words: `true|false`, `auto|2..8`, `e.g. 128x256x64`."""
        schema = self.json_schema()
        return "|".join(map(_in_words, schema.get("anyOf", [schema])))

    def json_schema(self) -> dict[str, Any]:
        """The JSON Schema of one value."""
        return self.adapter.json_schema()

    def _complaint(self, given: object, error: ValidationError) -> str:
        """One sentence from pydantic's details, of which a union gives one per member."""
        if slip := self._slip(given):
            return f"{self.name}: {show(given)} {slip}"
        wanted: list[str] = []
        choices: list[str] = []
        for detail in error.errors(include_url=False):
            if detail["type"] == "literal_error":
                expected = re.findall(r"'[^']*'|[0-9]+", detail["ctx"]["expected"])
                choices += [choice.strip("'") for choice in expected]
            elif detail["type"] == "bool_type":
                choices += ["true", "false"]
            elif detail["msg"].startswith("Input should be "):
                wanted.append(detail["msg"].removeprefix("Input should be "))
            else:
                return f"{self.name}: {detail['msg']}"
        choices = list(dict.fromkeys(choices))
        if choices:
            wanted.insert(0, f"one of {', '.join(choices)}" if len(choices) > 1 else choices[0])
        hint = did_you_mean(str(given), choices) if len(choices) > 1 else ""
        return f"{self.name}: {show(given)} should be {' or '.join(wanted)}{hint}"

    def _slip(self, given: object) -> str:
        """What is wrong with how `given` is written, where that alone is wrong."""
        if not isinstance(given, str):
            alike = None if given is None else text(given)
            return f'is not text: quote it, "{alike}"' if alike is not None and self.takes(alike) else ""
        value = resolve(given)
        if not isinstance(value, str | Trap) and self.takes(value):
            return f"is text: write {given} without quotes"
        alike = _TIMES.sub("x", given.strip())
        return f"is spelt otherwise; did you mean {alike!r}?" if alike != given and self.takes(alike) else ""


@cache
def fields_of(family: Family) -> dict[str, Field]:
    """The fields of the family's configurations by name, in the order in which they are declared."""
    hints = get_type_hints(family.config, include_extras=True)
    return {field.name: _field(field, hints[field.name]) for field in dataclasses.fields(family.config)}


def _field(field: dataclasses.Field[Any], annotation: Any) -> Field:
    kind = get_args(annotation)[0] if get_args(annotation) else annotation
    notes = (extra for extra in get_args(annotation)[1:] if isinstance(extra, str))
    return Field(
        name=field.name,
        description=next(notes, ""),  # of `Annotated[bool, "what it means"]`
        required=field.default is dataclasses.MISSING,
        default=field.default,
        # Built when the first value is parsed: most specs leave most fields at their defaults.
        adapter=TypeAdapter(annotation, config=ConfigDict(defer_build=True)),
        shape=isinstance(kind, type) and issubclass(kind, tuple),
    )


def show(given: object) -> str:
    """A scalar of YAML as a message quotes it."""
    if given is None:
        return "null"
    return quoted(given) if isinstance(given, str) else text(given)


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
        return f"{schema.get('minimum', '')}..{schema.get('maximum', '')}"
    return str(schema["type"]).replace("string", "text")
