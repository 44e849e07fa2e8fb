"""Checks of one argument by itself, and of what no plan's key holds.

Fake kernels run an op's checks on tensors of dynamic shapes, whose sizes are symbols. A check adds no guard
for torch.compile, because a guard is a recompilation, and because the op checks again when it runs.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from math import inf
from numbers import Real
from types import NoneType
from typing import TYPE_CHECKING, Any

import torch
from torch.autograd import forward_ad
from torch.compiler import is_dynamo_compiling

from tilewright.context import Context
from tilewright.declarations.vocabulary import MOST_EXTENT
from tilewright.errors import ArgumentError, ArgumentTypeError

if TYPE_CHECKING:
    from tilewright.calls.op import Op

MOST_FLOAT = (2 - 2**-23) * 2.0**127  # of float32
MOST_INTEGERS = 8  # in an option that is a list of them
MOST_TEXT = 100  # characters of a value in a message


def dims(shape: Any) -> str:
    return f"[{', '.join(map(str, shape))}]"


def dtypes(types: Any) -> str:
    """torch's dtypes, for messages."""
    return ", ".join(str(dtype).removeprefix("torch.") for dtype in types)


def certainly(condition: Any) -> bool:
    """Whether a condition holds; of symbols, whether it must hold. Adds no guard."""
    if isinstance(condition, bool):
        return condition
    from torch.fx.experimental.symbolic_shapes import statically_known_true  # noqa: PLC0415 (slow)

    return bool(statically_known_true(condition))


def differ(shape: Sequence[Any], expected: Sequence[Any]) -> bool:
    """Whether two shapes are certainly different."""
    pairs = zip(shape, expected, strict=False)
    return len(shape) != len(expected) or any(certainly(x != y) for x, y in pairs)


def symbolic(tensor: torch.Tensor) -> bool:
    """Whether an extent or a stride of a tensor is a symbol."""
    return any(not isinstance(number, int) for number in (*tensor.shape, *tensor.stride()))


def check_tensors(context: Context, tensors: Mapping[str, Any], op: Op, *, fake: bool = False) -> None:
    """Raises if an argument is no ordinary tensor, is not on the first one's GPU, or expects a derivative.

    An argument that is not required may be None. A scale may also be a number, or a tensor of another device.
    `fake`: tensors may be on the meta device.
    """
    required, scales = op.required, op.of(("scale",))
    for name, value in tensors.items():
        if name in required or (value is not None if name not in scales else isinstance(value, torch.Tensor)):
            check_tensor(name, value)
    first = required[0]
    device = tensors[first].device
    if context.described is None and device.type != "cuda" and not (fake and device.type == "meta"):
        raise ArgumentError(first, f"it is on {device}; expected a tensor on a CUDA device")
    for name, tensor in tensors.items():
        if name not in scales and tensor is not None and tensor.device != device:
            message = f"it is on {tensor.device}, {first} on {device}; expected the same device"
            raise ArgumentError(name, message)
    if not fake:
        refuse_derivatives(op.name, **tensors)
    elif torch.is_grad_enabled():  # torch unpacks no dual tensor below its key Autograd
        refuse_gradients(op.name, **tensors)


def check_options(op: Op, values: Mapping[str, Any]) -> None:
    """Raises if a flag is no boolean, or an integer no whole number."""
    for name, kind, default, _ in op.parameters:
        if kind == "flag":
            check_flag(name, values[name])
        elif kind == "integer" or (kind == "optional integer" and values[name] is not None):
            check_whole(name, values[name], least=0 if default == 0 else 1)


def check_tensor(name: str, value: Any) -> None:
    check_strided(name, value)
    if value.is_neg():
        raise negated(name)


def negated(name: str) -> ArgumentTypeError:
    """The error for a tensor with torch's negative bit: kernels read memory, where its values have the other
    sign."""
    return ArgumentTypeError(name, "it is a negated view, as z.conj().imag is; resolve_neg() makes a copy")


def refuse_negated(tensors: Mapping[str, Any]) -> None:
    """Raises ArgumentTypeError for a tensor with torch's negative bit. A plan's key does not hold the bit."""
    for name, tensor in tensors.items():
        if isinstance(tensor, torch.Tensor) and tensor.is_neg():
            raise negated(name)


def check_strided(name: str, value: Any) -> None:
    """Whether it is a tensor with strides, which dynamo can trace."""
    if not isinstance(value, torch.Tensor):
        raise ArgumentTypeError(name, f"it is {what(value)}; expected a torch.Tensor")
    if value.layout != torch.strided:
        raise ArgumentTypeError(name, f"its layout is {value.layout}; expected a strided tensor")
    if value.is_quantized or value.is_nested:
        kind = f"quantized ({value.dtype})" if value.is_quantized else "nested"
        raise ArgumentTypeError(name, f"it is {kind}; expected an ordinary tensor")
    if not is_dynamo_compiling() and value._is_zerotensor():
        raise ArgumentTypeError(
            name, "it is one of torch's zero tensors, which has no memory; clone() makes one"
        )


def refuse_gradients(op: str, **tensors: torch.Tensor | None) -> None:
    """Raises ArgumentError where autograd expects a gradient of a tensor; for calls with autograd on."""
    for name, tensor in tensors.items():
        if getattr(tensor, "requires_grad", False):
            raise ArgumentError(
                name, f"it requires a gradient and {op} has none; call it under torch.no_grad()"
            )


def refuse_tangents(op: str, **tensors: Any) -> None:
    """Raises ArgumentError for a dual tensor, whose tangent the op would drop; for calls in a level of
    forward-mode AD (`forward_ad._current_level` is not negative then, in functorch's transforms too)."""
    if not torch._C._is_fwd_grad_enabled():
        return
    for name, tensor in tensors.items():
        # The dispatcher unwraps a batch of torch.vmap, and calls again with its content.
        if not isinstance(tensor, torch.Tensor) or torch._C._functorch.is_batchedtensor(tensor):
            continue
        if forward_ad.unpack_dual(tensor).tangent is not None:
            raise ArgumentError(
                name,
                f"it is a dual tensor of forward-mode AD, and {op} has no derivative",
                hint="To compute without a derivative, pass its primal: "
                "torch.autograd.forward_ad.unpack_dual(tensor).primal.",
            )


def refuse_unusual(op: str, **tensors: Any) -> None:
    """Raises what a warm call has to raise for its tensors: for a gradient that autograd expects, or for the
    negative bit."""
    if torch.is_grad_enabled():
        refuse_gradients(op, **tensors)
    refuse_negated(tensors)


def refuse_derivatives(op: str, **tensors: Any) -> None:
    """Raises ArgumentError for a tensor of which autograd expects a derivative of the op, of either mode."""
    if torch.is_grad_enabled():
        refuse_gradients(op, **tensors)
    if forward_ad._current_level >= 0:
        refuse_tangents(op, **tensors)


def factor(name: str, value: Any) -> float:
    """A factor as the launcher takes it.

    Raises ArgumentTypeError if it is not a number (a tensor would have to be read back), ArgumentError if it
    is finite and beyond the range of float32.
    """
    # An abstract class is slow to ask.
    if type(value) is not float and type(value) is not int and not isinstance(value, Real):
        raise ArgumentTypeError(name, f"it is {what(value)}; expected a number")
    try:
        number = float(value)
    except OverflowError:
        raise overflow(name) from None
    if MOST_FLOAT < abs(number) < inf:
        raise overflow(name)
    return number


def overflow(name: str) -> ArgumentError:
    """The error for a factor beyond the range of float32. torch raises one too, because the factor would
    become infinity silently."""
    return ArgumentError(name, f"it is beyond the range of a float32, which ends at {MOST_FLOAT:.4g}")


def check_whole(name: str, value: Any, least: int) -> None:
    """A whole number, which may be a symbol."""
    if isinstance(value, bool) or not isinstance(value, (int, torch.SymInt)):
        raise ArgumentTypeError(name, f"it is {what(value)}; expected a whole number")
    if certainly(value < least):
        raise ArgumentError(name, f"it is {shown(value)}; expected a whole number, {least} or more")
    check_most(name, value)


def check_most(name: str, value: Any, what: str = "it") -> None:
    """Raises ArgumentError if a value is larger than extents may be. Kernels take an int of 32 bits, and
    ctypes would silently keep only the lower bits."""
    if certainly(value > MOST_EXTENT):
        raise ArgumentError(name, f"{what} is {shown(value)}; expected at most {MOST_EXTENT}")


def check_shape(name: str, shape: Sequence[Any], what: str = "") -> None:
    """Raises ArgumentError if an extent is larger than kernels take."""
    for extent in shape:
        if certainly(extent > MOST_EXTENT):
            subject = f"{what} is {extent}" if what else f"its shape is {dims(shape)}"
            raise ArgumentError(name, f"{subject}; expected at most {MOST_EXTENT}")


def refuse(wrong: Any, argument: str, message: str) -> None:
    """Raises ArgumentError if the condition certainly holds."""
    if certainly(wrong):
        raise ArgumentError(argument, message)


def check_word(name: str, value: Any, legal: Sequence[str], text: str = "") -> None:
    """Raises ArgumentError if an option is not one of its legal words; `text` says which are legal."""
    if isinstance(value, str) and value in legal:
        return
    error = ArgumentError if isinstance(value, str) else ArgumentTypeError
    raise error(name, f"it is {shown(value)}; expected {text or 'one of ' + ', '.join(legal)}")


def check_dtype(name: str, value: Any) -> None:
    """Raises ArgumentTypeError if an option is not a dtype."""
    if not isinstance(value, torch.dtype):
        raise ArgumentTypeError(name, f"it is {shown(value)}; expected a torch.dtype")


def is_integers(value: Any) -> bool:
    """Whether an option is a short list or tuple of integers. A tensor is not: it may have any number of
    elements, and each would be read back from its device."""
    return (
        isinstance(value, (list, tuple))
        and len(value) <= MOST_INTEGERS
        and all(isinstance(item, (int, torch.SymInt)) and not isinstance(item, bool) for item in value)
    )


def key_of_integers(value: Any) -> tuple[Any, ...]:
    """The part of a plan's key for an option that is a list of integers. Raises TypeError if the option is
    not one."""
    if not is_integers(value):
        raise TypeError(type(value))
    return tuple(value)


def what(value: object) -> str:
    """The kind of a value, for a message."""
    if value is None:
        return "None"
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"


def shown(value: Any) -> str:
    """A value in a message: its text where that is short, else its type."""
    if isinstance(value, str):
        return ascii(value) if len(value) <= MOST_TEXT else f"{value[:MOST_TEXT]!a}..."
    if isinstance(value, int) and abs(value) >= 2**64:
        return "an integer of more than 64 bits"
    if isinstance(value, (int, float, torch.SymInt, torch.dtype, NoneType)):
        return repr(value)
    if is_integers(value):
        fits = all(abs(integer) < 2**64 for integer in value)
        return repr(value) if fits else "integers of more than 64 bits"
    return what(value)


def check_flag(name: str, value: Any) -> None:
    """Raises ArgumentTypeError unless the value is True, False, or an equal number. A plan's key keeps the
    value for long, so it must be a constant."""
    if value is True or value is False:  # the other questions are slow
        return
    constant = isinstance(value, Hashable) and not isinstance(value, torch.Tensor)
    if not constant or value not in (True, False):
        raise ArgumentTypeError(name, f"it is {what(value)}; expected True or False")
