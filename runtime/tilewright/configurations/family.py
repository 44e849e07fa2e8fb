"""The parts of a family of kernels that the generator needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any, NamedTuple

from tilewright.configurations.rule import Rule


class Settling(NamedTuple):
    """Defaults of specs that follow from one field's value.

    The dataclass's own defaults say what a row of an older table means that lacks a field, so they never
    change. These say what a spec means that leaves a field out.
    """

    field: str
    """The field that settles others."""
    default: Any
    """Its value in a spec that leaves it out."""
    values: Mapping[Any, Mapping[str, Any]]
    """For each of its values, the other fields' defaults where they differ from the dataclass's."""


@dataclass(frozen=True, slots=True, eq=False)  # there is one of a name, and caches look it up often
class Family:
    """A kind of kernel: the shape of its configurations, what is legal, and how one becomes a source."""

    name: str
    config: type
    """A frozen, slotted dataclass: one kernel. Its annotations validate each value of a spec."""
    rules: tuple[Rule, ...]
    kernel_name: Callable[[Any], str]
    facts: Callable[[Any], Mapping[str, Any]]
    """Derived numbers for the table: stages, bytes of shared memory, threads, alignments."""
    variables: Callable[[Any], dict[str, str]]
    """What the template needs, spelt as C++: a template does no arithmetic."""
    build: Callable[[Any], dict[str, Any]]
    """How a unit is compiled and checked: `arch`, `defines`, `instructions`; where it applies, `cutlass`, the
    release it needs at least, `standard`, c++14 where it is not compiled as C++17 (compile/nvcc/compiler.py
    says why), `spills`, why it may spill registers, `releases`, why it may give stages back before loads
    from them return, `early_loads`, why it may load operands before the previous kernel ends, and
    `compiler`, where it is not nvcc (compile/compilers.py)."""
    template: Callable[[Any], str]
    """Template of a kernel's source, relative to the templates folder."""
    summary: Callable[[Any], str]
    """One line for people."""
    host: Callable[[Any], str] = lambda _: ""
    """Header with the host code of such kernels, where units leave it to their module's table; or ""."""
    table_template: str = "table.cc.j2"
    """Template of a module's binding source, relative to the templates folder."""
    settling: Settling | None = None
    """The field that settles others' defaults, if any does."""

    def defaults(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The values of all fields that a spec may leave out, beside the values that it gives."""
        values = {field.name: field.default for field in fields(self.config) if field.default is not MISSING}
        if self.settling is None:
            return values
        field, default, settled = self.settling
        return {**values, field: default, **settled[given.get(field, default)]}
