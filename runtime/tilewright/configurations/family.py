"""The parts of a family of kernels that the generator needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tilewright.configurations.rule import Rule


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
    says why), `spills`, why it may spill registers, and `compiler`, where it is not nvcc
    (compile/compilers.py)."""
    template: Callable[[Any], str]
    """Template of a kernel's source, relative to the templates folder."""
    summary: Callable[[Any], str]
    """One line for people."""
    host: Callable[[Any], str] = lambda _: ""
    """Header with the host code of such kernels, where units leave it to their module's table; or ""."""
    table_template: str = "table.cc.j2"
    """Template of a module's binding source, relative to the templates folder."""
