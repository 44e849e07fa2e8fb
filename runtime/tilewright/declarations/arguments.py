"""The C struct of a family's arguments, filled for a problem and for the tensors of a call.

A launcher (tilewright/launcher.hpp) is made from the struct, the layout of each operand, and the offset of
each number. It takes only operands of the same layout.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tilewright import blockwise_scales
from tilewright.declarations.declaration import Interface, Matrix, Operand, Packed
from tilewright.declarations.matrices import layout_of
from tilewright.formats.types import TMA_BYTES, TYPES, Type

if TYPE_CHECKING:
    import torch

_DLPACK_LANES = {"float4_e2m1fn_x2": 2}
# DLPack's type codes and bits (dlpack.h).
_DLPACK = {
    "uint8": (1, 8), "int8": (0, 8), "int32": (0, 32), "bfloat16": (4, 16), "float16": (2, 16),
    "float32": (2, 32), "float8_e4m3fn": (10, 8), "float8_e5m2": (12, 8), "float8_e8m0fnu": (14, 8),
    "float4_e2m1fn_x2": (17, 4),
}  # fmt: skip


class Launchable(NamedTuple):
    """The arguments of a module's `launcher`, besides the kernel's name."""

    arguments: bytes
    operands: tuple[tuple[int, ...], ...]
    numbers: tuple[int, ...]


@functools.cache
def members(interface: Interface) -> tuple[tuple[str, Any], ...]:
    """The struct's members and their types: extents, addresses, strides, numbers, codes, tactic, and the
    addresses and codes that are appended."""
    tactic = type(interface.tactic.name, (ctypes.Structure,), {
        "_fields_": [(name, ctypes.c_int32) for name in interface.tactic.members],
    })  # fmt: skip
    own = [operand for operand in interface.operands if not operand.appended]
    strides = [operand.strides for operand in own]
    leading = [names[0] for names in strides if names]
    batches = [names[1] for names in strides if len(names) > 1]
    fields = {
        ctypes.c_void_p: [operand.field for operand in own],
        ctypes.c_int64: leading + batches,
        ctypes.c_float: [number.field for number in interface.numbers],
        ctypes.c_int32: [code.name for code in interface.codes if not code.appended],
    }
    return (
        *[(name, ctypes.c_int32) for name in interface.extents],
        *[(name, kind) for kind, names in fields.items() for name in names],
        ("tactic", tactic),
        *[(operand.field, ctypes.c_void_p) for operand in interface.operands if operand.appended],
        *[(code.name, ctypes.c_int32) for code in interface.codes if code.appended],
    )


@functools.cache
def struct(interface: Interface) -> type[ctypes.Structure]:
    """The C struct as a type of ctypes."""
    return type(f"tilewright_{interface.family}_args", (ctypes.Structure,), {"_fields_": members(interface)})


def packed(interface: Interface, problem: Any, tactic: Any, sm_count: int) -> bytes:
    """The arguments of a problem that has no tensors yet. The matrices have no gaps, except that each row
    begins at a multiple of the address's alignment."""
    filled = struct(interface)()
    codes = {code.name: code.value(problem) for code in interface.codes}
    matrices = [operand for operand in interface.operands if isinstance(operand, Matrix)]
    packed_scales = [
        operand for operand in interface.operands if not isinstance(operand, Matrix) and operand.strides
    ]
    values = [(name, getattr(problem, name)) for name in interface.extents]
    values += codes.items()
    values += [(number.field, number.default) for number in interface.numbers]
    for names, strides in [(matrix.strides, matrix.packed_strides(problem)) for matrix in matrices]:
        values += zip(names, strides, strict=True)
    if packed_scales:
        leading = blockwise_scales.leading(getattr(problem, interface.extents[0]))
        values += [(operand.strides[0], leading) for operand in packed_scales]
    for name, value in values:
        setattr(filled, name, value)
    for name, value in interface.tactic.value(tactic, sm_count).items():
        setattr(filled.tactic, name, value)
    return bytes(filled)


def launchable(
    interface: Interface,
    problem: Any,
    arguments: bytes,
    *,
    tensors: Sequence[torch.Tensor | None],
    alignments: Mapping[str, int],
    passed: Mapping[str, Any] | None = None,
    numbers: Mapping[str, float] | None = None,
    guarded: bool = True,
) -> Launchable:
    """The arguments of a launcher for operands with the layouts of `tensors`, in the interface's order.

    `arguments`: of the problem, as `packed` returns them. `alignments`: the bytes that a kernel requires of
    an operand's address, if it requires more than the declaration. `passed`: the operands and then the
    numbers that calls pass, by name and in their order, if that is not the interface's; `tensors` are views
    of its tensors with the same first element. A call has no other operands; other numbers have the values
    in `numbers`. `guarded`: the launcher refuses addresses that a negated view may have.
    """
    kind = struct(interface)
    filled = kind.from_buffer_copy(arguments)
    members = {operand.name: operand.field for operand in interface.operands}
    members |= {number.name: number.field for number in interface.numbers}
    of_problem = dict(zip(interface.names, tensors, strict=True))
    own_numbers = [number.name for number in interface.numbers]
    passed = {**of_problem, **dict.fromkeys(own_numbers)} if passed is None else passed
    if unknown := [name for name in passed if name not in members]:
        raise ValueError(f"{interface.family} has no operand or number named {', '.join(unknown)}")
    order = [name for name in passed if name in of_problem]
    if left_out := [name for name, tensor in of_problem.items() if tensor is not None and name not in order]:
        raise ValueError(f"expected the names of all operands, got none for {', '.join(left_out)}")
    present = {name: tensor for name in order if (tensor := of_problem[name]) is not None}
    typed = [interface.by_name[name] for name in present if interface.by_name[name].type]
    types = {operand.name: TYPES[operand.type_of(problem)] for operand in typed}
    operands: dict[str, tuple[int, ...]] = dict.fromkeys(order, ())
    for name, tensor in present.items():
        operand, type = interface.by_name[name], types.get(name)
        strides = _strides(operand, problem, tensor, type)
        for member, elements in zip(operand.strides, strides, strict=False):
            setattr(filled, member, elements)
        offset = getattr(kind, members[name]).offset
        guard = _negation_guard(operand, tensor) if guarded else 1
        alignment = max(operand.alignment, alignments.get(name, 1), guard)
        twin = _twin(operand, of_problem, order)
        layout = _layout(operand, passed[name], problem, type)
        operands[name] = (offset, alignment, int(operand.written), twin, *layout)
    for name in own_numbers:
        if name not in passed:
            setattr(filled, members[name], (numbers or {})[name])
    offsets = tuple([getattr(kind, members[name]).offset for name in passed if name in own_numbers])
    return Launchable(bytes(filled), tuple(operands.values()), offsets)


def _strides(operand: Operand, problem: Any, tensor: torch.Tensor, type: Type | None) -> tuple[int, ...]:
    """The strides of a tensor that the struct holds, in elements: the leading dimension and the batch stride
    of a matrix, the distance of padded columns."""
    if isinstance(operand, Packed) and operand.has_gaps(problem):
        return (_leading(tensor),)
    if not isinstance(operand, Matrix):
        return ()
    assert type is not None
    row, column = tensor.dim() - 2, tensor.dim() - 1
    across, along = (row, column) if operand.inner(problem) == "columns" else (column, row)
    # The stride of an extent of 1 is arbitrary in frameworks, but a tensor map requires a legal one.
    unit = max(1, TMA_BYTES // tensor.element_size())
    step = tensor.stride(across) if tensor.shape[across] > 1 else -(-tensor.shape[along] // unit) * unit
    batch = tensor.stride(0) if tensor.dim() == 3 and tensor.shape[0] > 1 else 0
    held = 8 * tensor.element_size() // type.bits  # elements of the matrix in one of the tensor
    return step * held, batch * held


def _negation_guard(operand: Operand, tensor: torch.Tensor) -> int:
    """What an address is a multiple of, in bytes, unless its tensor may be a negated view.

    torch negates lazily: `z.conj().imag` has a bit set in the tensor, while a kernel reads memory, where the
    values have the other sign. To ask every tensor for the bit would take a tenth of a call's host time. But
    such a view skips every second element, beginning with an odd one. So if a tensor has no neighbours in
    memory, the launcher refuses odd addresses, and the call asks for the bit. Single numbers often lie at odd
    addresses (a scale in a list of scales); calls always ask them.
    """
    if str(tensor.dtype) not in {"torch.float32", "torch.float16"} or operand.is_number:
        return 1
    dense = any(step == 1 and extent > 1 for extent, step in zip(tensor.shape, tensor.stride(), strict=True))
    return 1 if dense else 2 * tensor.element_size()


def _dlpack(name: str) -> tuple[int, int, int]:
    """A type's code, bits and lanes in DLPack."""
    return (*_DLPACK[name], _DLPACK_LANES.get(name, 1))


def _leading(tensor: torch.Tensor) -> int:
    """The stride between columns; that of a dense tensor if there is a single column."""
    return int(tensor.stride(-1)) if tensor.shape[-1] > 1 else blockwise_scales.leading(tensor.shape[-2])


def _twin(operand: Operand, tensors: Mapping[str, torch.Tensor | None], order: Sequence[str]) -> int:
    """The index of the operand whose tensor this one may share, if both have one layout; -1 if there is
    none."""
    if operand.twin not in order:
        return -1
    index = order.index(operand.twin)
    own, twin = tensors[operand.name], tensors[operand.twin]
    return index if own is not None and layout_of(own) == layout_of(twin) else -1


def _layout(operand: Operand, tensor: torch.Tensor, problem: Any, type: Type | None) -> tuple[int, ...]:
    """The device, types and layout of an operand, as `Operand` of tilewright/launcher.hpp takes them."""
    name = str(tensor.dtype).removeprefix("torch.")
    types = (type.torch, "uint8") if operand.raw and type is not None and type.bits <= 8 else (name, name)
    device_and_types = (max(tensor.get_device(), 0), *_dlpack(types[0]), *_dlpack(types[1]))
    strided = isinstance(operand, Packed) and operand.has_gaps(problem)
    shaped = isinstance(operand, Packed) and operand.has_shape(problem)
    if not (isinstance(operand, Matrix) or strided or shaped):
        return (*device_and_types, -1, tensor.numel())
    pairs = zip(tensor.shape, tensor.stride(), strict=True)
    return (*device_and_types, tensor.dim(), *[number for pair in pairs for number in pair])
