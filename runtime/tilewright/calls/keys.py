"""The keys of plans and of cached launchers, as Python of a call's parameters (`calls.emitting`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tilewright.declarations.declaration import Packed

if TYPE_CHECKING:
    from tilewright.calls.op import Op


def caches_launchers(op: Op) -> bool:
    """Whether launchers of an op are cached (`libraries.launcher_cache`): they compare all that decides."""
    return op.written == ("out",) and not op.may_fill and not op.of(("scale",))


def unread(op: Op) -> dict[str, str]:
    """The operands that are not read if a number of the call is 0, each with that number."""
    operands = ((operand.name, operand.unread_if_zero) for operand in op.interface.operands)
    return {name: number for name, number in operands if number in op.numbers}


def zeros(op: Op) -> Iterator[str]:
    """Parts of keys for the numbers that change a plan if they are 0."""
    yield from (f"not {number}" for number in unread(op).values())
    yield from (f"not {number}" for number in op.product_factors)


def launcher_key(op: Op, out: str) -> Iterator[str]:
    """The short key of cached launchers: the parts of a plan's key that no launcher compares, and the shape
    of one operand, so that few launchers share a key.

    If the call makes the result, the key also holds all shapes and a type, which describe the result.
    """
    first, *further = op.required
    yield repr(op.name)
    yield f"{first}.shape"
    describes_result = (f"{first}.dtype", *(f"{name}.shape" for name in further))
    yield f"None if {out} is not None else ({', '.join(describes_result)},)"
    yield from (f"_key_of_integers({name})" for name in op.of(("integers",)))
    options = (parameter for parameter in op.parameters if not (parameter.is_tensor or parameter.is_number))
    yield from (parameter.name for parameter in options if parameter.kind != "integers")
    yield from zeros(op)


def key(op: Op) -> Iterator[str]:
    """The key of a plan: layouts of tensors, values of options, and which numbers are 0 if that decides what
    is read."""
    yield repr(op.name)
    optional: dict[str, str] = {}
    for parameter in op.parameters:
        name, kind = parameter.name, parameter.kind
        if kind == "tensor":
            yield from (f"type({name})", f"{name}.dtype")
            operand = op.interface.operand(name)
            # A launcher compares the number of a packed operand's elements.
            if not isinstance(operand, Packed) or operand.strides or operand.measured:
                yield from (f"{name}.shape", f"{name}.stride()")
            if name == op.required[0]:
                yield f"{name}.get_device()"
        elif kind == "scale":
            optional[name] = f"_layout_key({name}) if isinstance({name}, _Tensor) else type({name})"
        elif kind == "optional tensor" and name == "out":
            yield "None if out is None else (type(out), out.dtype, out.shape, out.stride())"
        elif kind == "optional tensor":
            optional[name] = f"_layout_key({name})"
        elif not parameter.is_number:
            yield f"_key_of_integers({name})" if kind == "integers" else name
    if optional:
        absent = " and ".join(f"{name} is None" for name in optional)
        yield f"None if {absent} else ({', '.join(optional.values())},)"
    yield from zeros(op)
