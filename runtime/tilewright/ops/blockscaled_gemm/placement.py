"""How operands lie, and what has to be copied before a kernel can read or write them.

Extents and addresses that no kernel takes are made ones that some kernel does: k is padded in copies of A
and B, n in a copy of B and a D of our own, with zeros. Scale factors keep their places: they are padded
further than any kernel wants k and n padded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from math import lcm

from tilewright.context import Context
from tilewright.device import DeviceProperties
from tilewright.interface.declaration import Axis
from tilewright.interface.placement import Arguments, Placement, misaligned
from tilewright.ops.blockscaled_gemm import family
from tilewright.ops.blockscaled_gemm.family import FAMILY
from tilewright.ops.blockscaled_gemm.interface import INTERFACE
from tilewright.ops.blockscaled_gemm.problem import BLOCK, MOST_ALIGNED, Alignment, Problem
from tilewright.ops.common.memory import round_up
from tilewright.table import KernelRecord

# The argument, and its contiguous dimension, of each matrix that has an alignment.
_MATRICES: dict[str, tuple[str, Axis]] = {
    "a": ("a", "columns"), "b": ("b", "rows"), "c": ("c", "columns"), "d": ("out", "columns"),
}  # fmt: skip


def place(
    context: Context, arguments: Arguments, device: DeviceProperties, addresses: Mapping[str, int]
) -> Placement:
    """What is copied: where no kernel takes the problem as it is, as some kernel of its kind wants it. The
    scale factors of one matrix for every batch are repeated."""
    views = arguments.matrices
    alignment = Alignment(**{
        name: 1 if views[argument].overlaps(inner)
        else views[argument].aligned(inner, MOST_ALIGNED, addresses.get(argument))
        for name, (argument, inner) in _MATRICES.items()
        if argument in views
    })  # fmt: skip
    problem: Problem = replace(arguments.problem, alignment=alignment)
    records = context.registry.route(FAMILY.name, device)
    fits = FAMILY.fitting_kept(context.registry, records, problem)
    wanted = _weakest([] if fits else FAMILY.of_kind(context.registry, records, problem.kind))
    k = round_up(problem.k, lcm(wanted.a, wanted.b))
    of_d = BLOCK[problem.d] if problem.quantizes else 1
    n = round_up(problem.n, lcm(wanted.d, wanted.c if problem.c else 1, of_d))
    copies = misaligned(INTERFACE, addresses)
    copies |= {"a", "b"} if k != problem.k else set()
    copies |= {"b", "out", "c"} if n != problem.n else set()
    copies |= {_MATRICES[name][0] for name in _MATRICES if getattr(alignment, name) % getattr(wanted, name)}
    copies |= {f"{name}_descale" for name in ("a", "b") if views[name].batch == 1 < problem.batch}
    if not problem.c:
        copies.discard("c")
    return Placement(
        replace(problem, n=n, k=k, alignment=Alignment()) if copies else problem, frozenset(copies)
    )


def _weakest(records: Iterable[KernelRecord]) -> Alignment:
    """What the kernels that ask least ask of the matrices; nothing where there are none."""
    return min(
        map(family.alignment_of, records),
        key=lambda one: (one.d, one.c, max(one.a, one.b)),
        default=Alignment(1, 1, 1, 1),
    )
