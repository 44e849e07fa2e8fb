"""Common slips of those who write specs, and what they meant."""

from __future__ import annotations

from collections.abc import Iterable

from tilewright_generator import nodes
from tilewright_generator.fields import Field, InvalidValueError


def unspaced_key(word: str, keys: Iterable[str]) -> str:
    """The key of `key:value`, which is one word to YAML; else ''."""
    key, colon, value = word.partition(":")
    return key if colon and value and key in keys else ""


def unspaced(word: str, keys: Iterable[str]) -> str:
    """A hint at `key:value`."""
    key = unspaced_key(word, keys)
    return f"; a space is missing after '{key}:'" if key else ""


def split_shapes(node: nodes.Node) -> list[str]:
    """The shapes that `node` gives as lists of numbers; empty if it gives none."""
    if not isinstance(node, nodes.Sequence):
        return []
    if node.items and all(isinstance(item, nodes.Sequence) for item in node.items):
        shapes = [split_shapes(item) for item in node.items]
        return [shape for some in shapes for shape in some] if all(shapes) else []
    numbers = [item.value if isinstance(item, nodes.Scalar) else None for item in node.items]
    return ["x".join(map(str, numbers))] if numbers and all(type(n) is int for n in numbers) else []


def no_list(field: Field, shapes: list[str]) -> str:
    """The spelling of a shape that is written as a list of numbers."""
    try:
        for shape in shapes:
            field.parse(shape)
    except InvalidValueError as error:
        return f"{error}; and a list means alternatives"
    meant = shapes[0] if len(shapes) == 1 else f"[{', '.join(shapes)}]"
    return f"{field.name}: a list means alternatives; write {meant}"
