"""Makes plans: checks, places, selects, binds."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable

import torch

from tilewright.context import Context
from tilewright.errors import NoKernelError
from tilewright.ops.gemm import selection
from tilewright.ops.gemm.arguments import OUTPUT_DTYPES, Arguments
from tilewright.ops.gemm.placement import NOTHING, place
from tilewright.ops.gemm.plan import DegeneratePlan, DirectPlan, EmptyPlan, PaddedPlan, Plan
from tilewright.ops.gemm.problem import Problem
from tilewright.ops.gemm.tactics import Tactic

log = logging.getLogger("tilewright")


def make(
    context: Context,
    arguments: Arguments,
    tactic: Tactic | None,
    inner: Callable[..., torch.Tensor],
    misaligned: frozenset[str] = NOTHING,
) -> Plan:
    """The plan of a checked call. `tactic` overrules the selection; `inner` is the op, for padded plans."""
    if 0 in (arguments.m, arguments.n, arguments.batch, arguments.k):
        if tactic is not None:
            selection.check_demand(context.registry, tactic, describe(arguments, "tn"))
        return EmptyPlan(arguments) if 0 in arguments.shape else DegeneratePlan(arguments)
    device = context.device(arguments.device.index or 0)
    records = context.registry.route(selection.FAMILY, device)
    placement = place(arguments, misaligned)
    problem = describe(arguments, placement.layout)
    unread = problem.layout != "tn" and not selection.fitting(context.registry, records, problem)
    if unread and not placement.copies:
        placement = place(arguments, misaligned, k_major=True)
    if placement.copies:
        log.warning(
            "%s: copies %s, which no kernel takes as it lies", problem, ", ".join(sorted(placement.copies))
        )
        options = {
            "activation": arguments.activation,
            "fast_accum": arguments.fast_accum,
            "out_dtype": OUTPUT_DTYPES[arguments.d],
            "tactic": tactic,
        }
        return PaddedPlan(arguments, placement, functools.partial(inner, **options))
    chosen, record = selection.choose(context.registry, records, problem, device, tactic)
    sizes, options_ = (
        (problem.m, problem.n, problem.k, problem.batch),
        chosen.options(problem, device.sm_count),
    )
    library = context.registry.library(record)
    if not library.can_implement(record.name, sizes, options_):
        raise NoKernelError(f"{chosen} fits {problem} by its table and refuses it: a rule is missing")
    return DirectPlan(
        arguments,
        problem,
        chosen,
        library.launcher(record.name, options_),
        library.workspace_bytes(record.name, sizes, options_),
    )


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
