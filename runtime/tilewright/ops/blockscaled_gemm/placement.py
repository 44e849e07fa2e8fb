"""How operands lie, and what has to be copied before a kernel can read or write them.

Extents and addresses that no kernel takes are made ones that some kernel does: k is padded in copies of A
and B, n in a copy of B and a D of our own, with zeros. Scale factors keep their places: they are padded
further than any kernel wants k and n padded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import lcm

from tilewright.context import Context
from tilewright.device import DeviceProperties
from tilewright.interface.placement import Arguments, Placement, misaligned
from tilewright.ops.blockscaled_gemm.family import FAMILY
from tilewright.ops.blockscaled_gemm.interface import INTERFACE
from tilewright.ops.blockscaled_gemm.problem import BLOCK, MOST_ALIGNED, Alignment, Problem
from tilewright.ops.common.memory import round_up


def place(
    context: Context, arguments: Arguments, device: DeviceProperties, addresses: Mapping[str, int]
) -> Placement:
    """What is copied: where no kernel takes the problem as it is, as some kernel of its kind wants it. The
    scale factors of one matrix for every batch are repeated."""
    views, given = arguments.matrices, {}
    for field, one in INTERFACE.matrices.items():
        if one.name in views:
            view, inner = views[one.name], one.inner(arguments.problem)
            address = addresses.get(one.name)
            given[field] = 1 if view.overlaps(inner) else view.aligned(inner, MOST_ALIGNED, address)
    problem: Problem = replace(arguments.problem, alignment=Alignment(**given))
    wanted = _wanted(context, problem, device)
    of_d = BLOCK[problem.d] if problem.quantizes else 1
    n = round_up(problem.n, lcm(wanted.d, wanted.c if problem.c else 1, of_d))
    k = round_up(problem.k, lcm(wanted.a, wanted.b))
    longer = {name for name, extent in (("n", n), ("k", k)) if extent != getattr(problem, name)}
    copies = misaligned(INTERFACE, addresses)
    for field, one in INTERFACE.matrices.items():
        if one.name in views or one.written:
            lies = getattr(problem.alignment, field) % getattr(wanted, field) == 0
            copies |= set() if lies and not longer & {one.rows, one.columns} else {one.name}
    copies |= {f"{name}_descale" for name in ("a", "b") if views[name].batch == 1 < problem.batch}
    placed = replace(problem, n=n, k=k, alignment=Alignment()) if copies else problem
    return Placement(placed, frozenset(copies))


def _wanted(context: Context, problem: Problem, device: DeviceProperties) -> Alignment:
    """What the kernels that ask least ask of the matrices; nothing where one takes them or there are none."""
    records = context.registry.route(FAMILY.name, device)
    fits = FAMILY.fitting_kept(context.registry, records, problem)
    would = [] if fits else FAMILY.of_kind(context.registry, records, problem.kind)
    return min(
        (Alignment(**record.facts["alignment"]) for record in would),
        key=lambda one: (one.d, one.c, max(one.a, one.b)),
        default=Alignment(1, 1, 1, 1),
    )
