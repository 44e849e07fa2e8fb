"""Where operands lie, and what has to be copied before a kernel can read or write them.

Extents and addresses that no kernel takes are made ones that some kernel does: k is padded in copies of A
and B, n in a copy of B and a D of our own, with zeros. Scale factors keep their places: they are padded
further than any kernel wants k and n padded.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import lcm

from tilewright.ops.blockscaled_gemm import family
from tilewright.ops.blockscaled_gemm.arguments import Arguments, per_byte
from tilewright.ops.blockscaled_gemm.problem import BITS, BLOCK, MOST_ALIGNED, QUANTIZED_OUTPUTS, Alignment
from tilewright.ops.common.calls import alignment_of
from tilewright.ops.common.memory import round_up
from tilewright.ops.common.operands import Operand
from tilewright.table import KernelRecord

# What the addresses of these are multiples of, whatever the kernel (`interface`).
ADDRESS_BYTES = 16
ADDRESSED = ("a", "b", "c", "out", "a_descale", "b_descale", "out_descale")


@dataclass(frozen=True, slots=True)
class Placement:
    """The arguments to copy (`out`, `out_descale`: to write elsewhere first), and what the copies are padded
    to, in elements. An operand in `shared` is one matrix for every batch, and its scale factors are
    repeated."""

    copies: frozenset[str]
    shared: frozenset[str]
    k: int
    n: int

    def __bool__(self) -> bool:
        return bool(self.copies or self.shared)


def aligned(arguments: Arguments, addresses: Mapping[str, int]) -> Alignment:
    """How the matrices lie; `addresses` says of arguments what their address is a multiple of, where that is
    little."""
    found = {
        name: _aligned(operand, addresses.get(argument))
        for name, argument, operand in (
            ("a", "a", arguments.a),
            ("b", "b", _transposed(arguments.b)),
            ("c", "c", arguments.c),
            ("d", "out", arguments.out),
        )
        if operand is not None
    }
    return Alignment(**found)


def _aligned(operand: Operand, address: int | None) -> int:
    """Of a matrix with contiguous rows, in elements."""
    unit = per_byte(operand.dtype)
    found = MOST_ALIGNED if address is None else address * 8 // BITS[operand.dtype]
    if operand.rows > 1:
        overlapping = operand.row_stride < operand.columns
        found = 1 if overlapping else min(found, alignment_of(operand.row_stride * unit, MOST_ALIGNED))
    if operand.batch > 1:
        found = (
            1 if operand.batch_stride < 0 else min(found, alignment_of(operand.batch_stride * unit, found))
        )
    return min(found, MOST_ALIGNED)


def _transposed(operand: Operand) -> Operand:
    return replace(
        operand,
        rows=operand.columns,
        columns=operand.rows,
        row_stride=operand.column_stride,
        column_stride=operand.row_stride,
    )


def weakest(records: Iterable[KernelRecord]) -> Alignment:
    """What the kernels that ask least ask of the matrices; nothing where there are none."""
    return min(
        map(family.alignment_of, records),
        key=lambda one: (one.d, one.c, max(one.a, one.b)),
        default=Alignment(1, 1, 1, 1),
    )


def place(
    arguments: Arguments, alignment: Alignment, wanted: Alignment, addresses: Mapping[str, int]
) -> Placement:
    """Decides what is copied, for kernels that want `wanted`."""
    of_d = BLOCK[arguments.d] if arguments.d in QUANTIZED_OUTPUTS else 1
    k = round_up(arguments.k, lcm(wanted.a, wanted.b))
    n = round_up(arguments.n, lcm(wanted.d, wanted.c if arguments.c is not None else 1, of_d))
    copies = {name for name in ADDRESSED if addresses.get(name, ADDRESS_BYTES) < ADDRESS_BYTES}
    if k != arguments.k:
        copies |= {"a", "b"}
    if n != arguments.n:
        copies |= {"b", "out", "c"}
    for name, argument in (("a", "a"), ("b", "b"), ("c", "c"), ("d", "out")):
        if getattr(alignment, name) % getattr(wanted, name):
            copies.add(argument)
    if arguments.c is None:
        copies.discard("c")
    shared = {operand.name for operand in (arguments.a, arguments.b) if operand.batch == 1 < arguments.batch}
    return Placement(frozenset(copies), frozenset(shared), k, n)
