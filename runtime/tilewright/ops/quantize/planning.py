"""Makes plans: decides what is copied, selects, binds."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from tilewright.context import Context
from tilewright.device import DeviceProperties
from tilewright.ops.common.plan import DirectPlan, Plan, bind
from tilewright.ops.common.tactics import Tactic
from tilewright.ops.quantize.arguments import Arguments
from tilewright.ops.quantize.family import FAMILY
from tilewright.ops.quantize.interface import interface
from tilewright.ops.quantize.plan import CopyingPlan, EmptyPlan
from tilewright.ops.quantize.problem import Alignment, Problem
from tilewright.table import KernelRecord

log = logging.getLogger("tilewright")

# Bytes that the binding asks the addresses of other tensors to be multiples of.
_WANTED = {"rms_weight": 16, "out_scales": 16, "scales": 16, "global_scale": 4, "rows_valid": 4}


def make(
    context: Context,
    arguments: Arguments,
    tactic: Tactic | None,
    again: Callable[..., Any],
    addresses: frozenset[tuple[str, int]] = frozenset(),
) -> Plan:
    """The plan of a checked call. `tactic` overrules the selection; `again` is the op with the call's
    options, for plans that copy; `addresses` says of arguments what their address is a multiple of, where it
    is not of 32 bytes."""
    registry, request = context.registry, arguments.request
    lie = dict(addresses)
    problem = describe(arguments, lie)
    if 0 in (problem.m, problem.k, problem.groups):
        if tactic is not None:
            FAMILY.check_demand(registry, tactic, problem)
        return EmptyPlan(arguments)
    device = context.device(arguments.device.index or 0)
    copies = {name for name, wanted in _WANTED.items() if lie.get(name, wanted) % wanted}
    copies |= arguments.copies | _misaligned(context, problem, device)
    if copies or request.shuffle:
        if copies:
            log.warning("%s: copies %s, which no kernel takes as it lies", problem, ", ".join(sorted(copies)))
        if request.shuffle:
            again = functools.partial(again, shuffle=False)
        return CopyingPlan(arguments, frozenset(copies), again)
    if tactic is None and context.tuner is not None:
        context.tuner(FAMILY, problem, device)
    x, data = ("x", "out") if request.quantizes else ("out", "data")

    def alignments(record: KernelRecord) -> dict[str, int]:
        return {x: record.facts["alignment"]["x"], data: record.facts["alignment"]["data"]}

    of = interface(request.direction)
    bound = bind(context, FAMILY, problem, device, tactic, interface=of, alignments=alignments)
    return DirectPlan(arguments, bound)


def _misaligned(context: Context, problem: Problem, device: DeviceProperties) -> set[str]:
    """The matrices, by their arguments' names, that no kernel of the problem's kind takes as they lie, where
    there is one that would take copies."""
    if problem.alignment == Alignment():
        return set()
    registry = context.registry
    records = registry.runnable(FAMILY.name, device.capability)
    if FAMILY.fitting_kept(registry, records, problem):
        return set()
    would = FAMILY.fitting_kept(registry, records, replace(problem, alignment=Alignment()))
    names = {"x": "x", "data": "out"} if problem.direction == "quantize" else {"x": "out", "data": "data"}
    return {
        argument
        for name, argument in names.items()
        if would and all(getattr(problem.alignment, name) % one.facts["alignment"][name] for one in would)
    }


def describe(arguments: Arguments, addresses: Mapping[str, int]) -> Problem:
    """The problem; `addresses` as `make` has them, as a mapping."""
    request, given = arguments.request, arguments.alignment
    x, data = ("x", "out") if request.quantizes else ("out", "data")
    alignment = Alignment(
        given.x if x in arguments.copies else min(given.x, addresses.get(x, given.x)),
        given.data if data in arguments.copies else min(given.data, addresses.get(data, given.data)),
    )
    return Problem(
        m=arguments.m,
        k=arguments.k,
        groups=arguments.groups,
        direction=request.direction,
        format=request.format,
        x=arguments.x,
        layout=arguments.layout,
        fusion=request.fusion,
        global_scale="row" if arguments.global_scale == "group" else arguments.global_scale,
        exact=request.exact,
        alignment=alignment,
    )
