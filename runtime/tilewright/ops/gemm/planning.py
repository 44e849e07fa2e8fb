"""Makes plans: checks, places, selects, binds."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

import torch

from tilewright.context import Context
from tilewright.device import DeviceProperties
from tilewright.ops.common.plan import DirectPlan, Plan, bind
from tilewright.ops.common.tactics import Tactic
from tilewright.ops.gemm.arguments import OPERAND_NAMES, OUTPUT_DTYPES, Arguments, check
from tilewright.ops.gemm.family import FAMILY
from tilewright.ops.gemm.interface import INTERFACE
from tilewright.ops.gemm.placement import Placement, place
from tilewright.ops.gemm.plan import DegeneratePlan, EmptyPlan, PaddedPlan
from tilewright.ops.gemm.problem import Problem

log = logging.getLogger("tilewright")


def make(
    context: Context,
    arguments: Arguments,
    tactic: Tactic | None,
    again: Callable[..., torch.Tensor],
    addresses: frozenset[tuple[str, int]] = frozenset(),
) -> Plan:
    """The plan of a checked call. `tactic` overrules the selection; `again` is the op with the call's
    options, for padded plans."""
    registry = context.registry
    if 0 in (arguments.m, arguments.n, arguments.batch, arguments.k):
        if tactic is not None:  # an empty matrix lies in any layout
            layout = registry.record(tactic.kernel).config.get("layout", "tn")
            FAMILY.check_demand(registry, tactic, describe(arguments, layout))
        return EmptyPlan(arguments) if 0 in arguments.shape else DegeneratePlan(arguments)
    device = context.device(arguments.device.index or 0)
    problem, placement = placed(context, arguments, device, addresses)
    if placement.copies:
        log.warning(
            "%s: copies %s, which no kernel takes as it lies", problem, ", ".join(sorted(placement.copies))
        )
        return PaddedPlan(arguments, placement, again)
    if tactic is None and context.tuner is not None:
        context.tuner(FAMILY, problem, device)
    return DirectPlan(arguments, bind(context, FAMILY, problem, device, tactic, interface=INTERFACE))


def placed(
    context: Context,
    arguments: Arguments,
    device: DeviceProperties,
    addresses: frozenset[tuple[str, int]] = frozenset(),
) -> tuple[Problem, Placement]:
    """The problem as its operands lie, and what of them is copied."""
    records = context.registry.route(FAMILY.name, device)
    placement = place(arguments, addresses)
    problem = describe(arguments, placement.layout)
    unread = problem.layout != "tn" and not FAMILY.fitting_kept(context.registry, records, problem)
    if unread and not placement.copies:
        placement = place(arguments, addresses, k_major=True)
    return problem, placement


def copied(
    context: Context, problem: Problem, device: DeviceProperties
) -> tuple[Problem, tuple[str, ...]] | None:
    """What a call plans for contiguous operands: what is computed instead, and the arguments that are copied;
    None where none is."""

    def matrix(rows: int, columns: int, dtype: torch.dtype, *, row_major: bool = True) -> torch.Tensor:
        shape = (problem.batch, rows, columns) if row_major else (problem.batch, columns, rows)
        made = torch.empty(shape, dtype=dtype, device="meta")  # no memory
        return made if row_major else made.mT

    m, n, k = problem.m, problem.n, problem.k
    dtypes, d = {name: dtype for dtype, name in OPERAND_NAMES.items()}, OUTPUT_DTYPES[problem.d]
    arguments = check(
        context,
        matrix(m, k, dtypes[problem.a], row_major=problem.a_k_major),
        matrix(k, n, dtypes[problem.b], row_major=not problem.b_k_major),
        out=None,
        out_dtype=d,
        c=matrix(m, n, d) if problem.c else None,
        alpha=1,
        beta=int(problem.c),
        scale_a=None,
        scale_b=None,
        bias=torch.empty(n, dtype=d, device="meta") if problem.bias else None,
        activation=problem.activation,
        fast_accum=problem.fast_accum,
        fake=True,
    )
    _, placement = placed(context, arguments, device)
    made = replace(problem, n=placement.n, k=placement.k, layout=placement.layout)
    return (made, tuple(sorted(placement.copies))) if placement.copies else None


def describe(arguments: Arguments, layout: str) -> Problem:
    return Problem(
        m=arguments.m,
        n=arguments.n,
        k=arguments.k,
        batch=arguments.batch,
        a=arguments.a.dtype,
        b=arguments.b.dtype,
        d=arguments.d,
        layout=layout,
        c=arguments.c is not None,
        bias=arguments.bias,
        activation=arguments.activation,
        fast_accum=arguments.fast_accum,
    )
