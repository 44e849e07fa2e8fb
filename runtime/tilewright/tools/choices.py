"""The choices of selection as a C++ header, for programs without Python (`tilewright/library.hpp`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tilewright.architectures.device import DeviceProperties
from tilewright.declarations import catalog
from tilewright.declarations.headers import APPENDED
from tilewright.declarations.tactics import Tactic
from tilewright.libraries.registry import Registry
from tilewright.models.product import Product
from tilewright.tools.bundling.closure import Closure


class Range(NamedTuple):
    """The tactic for the values from `first` to the next range."""

    first: int
    module: str
    tactic: Tactic


def ranges(closure: Closure, registry: Registry) -> list[Range]:
    """The ranges of a closure; adjacent ranges that differ only in the reason of the choice are merged."""
    merged: list[Range] = []
    for choice in closure.choices:
        tactic = Tactic.parse(choice.tactic)
        if not merged or merged[-1].tactic != tactic:
            merged.append(Range(choice.first, registry.table_of(tactic.kernel).module, tactic))
    return merged


def header(product: Product, choices: Sequence[Range], device: DeviceProperties, command: str) -> str:
    """The text of a header that declares `tilewright_choices::NAME`, where NAME is the product's layer."""
    return "\n".join(_lines(product, choices, device, command)) + "\n"


def _lines(
    product: Product, choices: Sequence[Range], device: DeviceProperties, command: str
) -> Iterator[str]:
    interface = catalog.family_module(product.family, "interface").INTERFACE
    guard = f"TILEWRIGHT_CHOICES_{product.layer.upper()}_"
    yield f"// Written by `{command}`. DO NOT EDIT."
    yield "//"
    gpu = f"an {device.name} ({device.sm_count} SMs)"
    yield f"// What selection chooses on {gpu} for each {product.extent} of"
    yield f"// {product.example}"
    yield from (f"#ifndef {guard}", f"#define {guard}", "")
    yield f'#include "tilewright/{product.family}/{APPENDED if interface.appends else "args.h"}"'
    yield from ('#include "tilewright/library.hpp"', "", "namespace tilewright_choices {", "")
    yield f"// By {product.extent}. The tactic's members: {', '.join(interface.tactic.members)}."
    kind = f"tilewright::Choices<{interface.tactic.name}, {len(choices)}>"
    yield f"inline constexpr {kind} {product.layer} = {{"
    yield f"    {product.values[-1]},"
    yield "    {"
    for first, module, tactic in choices:
        values = interface.tactic.value(tactic, device.sm_count)
        settings = ", ".join(str(values[member]) for member in interface.tactic.members)
        yield f'        {{{first}, "{module}", "{tactic.kernel}", {{{settings}}}}},'
    yield from ("    },", "};", "", "}  // namespace tilewright_choices", "", f"#endif  // {guard}")
