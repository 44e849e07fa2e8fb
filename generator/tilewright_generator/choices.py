"""The fields of a mapping in a spec: the value of each with its place, or its fault."""

from __future__ import annotations

from typing import Any, NamedTuple

from tilewright.base.spelling import did_you_mean, nearest, quoted, text
from tilewright.configurations.family import Family
from tilewright_generator import families, nodes
from tilewright_generator.errors import Faults, Position
from tilewright_generator.fields import Field, InvalidValueError, fields_of, show
from tilewright_generator.slips import no_list, split_shapes, unspaced, unspaced_key


class Value(NamedTuple):
    """A value of a field, and its place in a spec. A family's default has no place."""

    value: Any
    position: Position | None


Choices = dict[str, tuple[Value, ...]]
"""The values that a group gives for each field. The product of the fields' values makes the combinations."""


class Reader:
    """Reads fields of one family."""

    def __init__(self, family: Family, faults: Faults) -> None:
        self._family = family
        self._faults = faults
        self._fields = fields_of(family)
        # By field and id of a node. The node is kept here, so that no other node gets its id.
        self._read: dict[tuple[str, int], tuple[nodes.Node, tuple[Value, ...]]] = {}

    def read(self, node: nodes.Mapping, others: tuple[str, ...]) -> Choices:
        """The fields that `node` gives, without the keys in `others`. A field with a fault has an empty
        tuple."""
        choices: Choices = {}
        for name, entry in node.entries.items():
            if name in self._fields:
                choices[name] = self._values(self._fields[name], entry)
            elif name not in others:
                meant = self._unknown(name, entry.position, [*self._fields, *others])
                if meant in self._fields:  # so that it is not missing too
                    choices.setdefault(meant, ())
        return choices

    def _unknown(self, name: str, position: Position, names: list[str]) -> str:
        """Report a key that is no field. Answers the field that is likely meant, or ''."""
        if not self._faults.add(position, lambda: self._no_field(name, names)):
            return ""
        return unspaced_key(name, names) or nearest(name, names) or ""

    def _no_field(self, name: str, names: list[str]) -> str:
        hint = (
            _had_by([family for family in families.names() if name in fields_of(families.get(family))])
            or unspaced(name, names)
            or did_you_mean(name, names)
            or f"; there are: {', '.join(names)}"
        )
        return f"{self._family.name} has no field {quoted(name)}{hint}"

    def _values(self, field: Field, entry: nodes.Entry) -> tuple[Value, ...]:
        """The entry's values. Groups may share a list, through an anchor: it is read once."""
        if isinstance(entry.value, nodes.Scalar):
            return self._read_values(field, entry.value)
        key = (field.name, id(entry.value))
        if key not in self._read:
            self._read[key] = (entry.value, self._read_values(field, entry.value))
        return self._read[key][1]

    def _read_values(self, field: Field, node: nodes.Node) -> tuple[Value, ...]:
        items = as_list(node)
        if not items:
            self._faults.add(node.position, f"{field.name}: the list is empty")
        if field.shape and (shapes := split_shapes(node)):
            self._faults.add(node.position, lambda: no_list(field, shapes))
            return ()
        values: dict[Any, Value] = {}
        for item in items:
            value = self._value(field, item)
            if value is None:
                continue
            first = values.setdefault(value.value, value)
            if first is not value:
                at = first.position.line if first.position else 0
                twice = f"{field.name}: {text(value.value)} stands here twice; it is on line {at} too"
                self._faults.add(item.position, twice)
        return tuple(values.values()) if len(values) == len(items) else ()

    def _value(self, field: Field, node: nodes.Node) -> Value | None:
        if isinstance(node, nodes.Unreadable):
            return None
        if not isinstance(node, nodes.Scalar) or node.value is None:
            self._faults.add(node.position, f"{field.name}: write a value, not {described(node)}")
            return None
        try:
            return Value(field.parse(node.value), node.position)
        except InvalidValueError as error:
            fault, value = error, node.value
            self._faults.add(node.position, lambda: f"{fault}{self._elsewhere(field, value)}")
            return None

    def _elsewhere(self, field: Field, value: object) -> str:
        """Which other families take the value, if it is a word."""
        if not isinstance(value, str):
            return ""
        other_families = (name for name in families.names() if name != self._family.name)
        return _had_by([name for name in other_families if _takes(families.get(name), field.name, value)])


def _had_by(others: list[str]) -> str:
    """`"; of other families x has it"`, or the empty string if no family has the field."""
    has = "has" if len(others) == 1 else "have"
    return f"; of other families {', '.join(others)} {has} it" if others else ""


def described(node: nodes.Node) -> str:
    """The value there, described in a few words."""
    if isinstance(node, nodes.Scalar):
        return "nothing" if node.value in (None, "") else show(node.value)
    return "a list" if isinstance(node, nodes.Sequence) else "a mapping"


def as_list(node: nodes.Node) -> tuple[nodes.Node, ...]:
    """The items of a list, or the one that stands without one."""
    return node.items if isinstance(node, nodes.Sequence) else (node,)


def _takes(family: Family, name: str, value: object) -> bool:
    field = fields_of(family).get(name)
    return field is not None and field.takes(value)
